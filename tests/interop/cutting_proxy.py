"""An HTTP proxy in front of one server, which cuts connections before or after the server has acted."""

import http.client
import http.server
import random
import socket
import threading


class CuttingProxy:
    """`before`, `after`: the share of the requests that are cut without, or after, an answer of the server. `tls`: for https."""

    def __init__(self, port, before=0.0, after=0.0, seed=1, delay=0.0, tls=None):
        self.port, self.before, self.after, self.delay = port, before, after, delay
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.counts = {"passed": 0, "before": 0, "after": 0}
        self.down = False
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def cut(self, why):
                proxy.count(why)
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def handle_all(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with proxy.lock:
                    chance = proxy.random.random()
                if proxy.down or chance < proxy.before:
                    return self.cut("before")
                headers = {key: value for key, value in self.headers.items() if key.lower() not in ("connection", "host")}
                server = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=120)
                try:
                    server.request(self.command, self.path, body, headers)
                    answer = server.getresponse()
                    content = answer.read()
                except OSError:
                    return self.cut("before")
                finally:
                    server.close()
                if chance < proxy.before + proxy.after:
                    return self.cut("after")
                proxy.count("passed")
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type", "text/plain"))
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = handle_all

            def log_message(self, *args):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a connection that was cut

        self.listener = Listener(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.listener.socket = tls.wrap_socket(self.listener.socket, server_side=True)
        self.url = f"http{'' if tls is None else 's'}://127.0.0.1:{self.listener.server_address[1]}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def close(self):
        self.listener.shutdown()

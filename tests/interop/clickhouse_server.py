"""ClickHouse's engine behind ClickHouse's HTTP interface: a server for tests, of one embedded session.

    clickhouse_server.py DIRECTORY [--port N] [--user NAME --password TEXT]

It hands the statement and the body of a request to one session, and answers as the server does: the exception's code in
X-ClickHouse-Exception-Code, status 401, 403, 404 or 500, bodies with Content-Encoding gzip, settings of the URL, parameters
{name:Type}. What an embedded session cannot do is absent: several queries at a time, replicas, accounts with rights.

POST /fault with a JSON object makes trouble:
    {"lose_every": N}       the answer of every Nth insert is lost, after it was made
    {"refuse": CODE, "requests": N, "inserts": true}   the next N (inserts) are refused with this exception
    {"delay": SECONDS}      each insert takes that much longer
    {"die_after": N, "moment": SECONDS}   the process dies so long after the engine began the Nth insert from now
    {"die_before_view": true}   the process dies when the next insert into points is in the table, but not in its view
GET /counts has the numbers of requests.
"""

import argparse
import gzip
import http.server
import json
import os
import re
import socket
import sys
import threading
import time
import urllib.parse

from chdb import session

NOT_SETTINGS = {"query", "database", "wait_end_of_query", "default_format", "user", "password", "session_id", "query_id"}
STATUS = {60: 404, 81: 404, 62: 400, 46: 400, 47: 404, 164: 403, 194: 401, 192: 403, 193: 403, 497: 403, 516: 403, 241: 500}
NAMES = {164: "READONLY", 242: "TABLE_IS_READ_ONLY", 243: "NOT_ENOUGH_SPACE", 252: "TOO_MANY_PARTS", 497: "ACCESS_DENIED", 516: "AUTHENTICATION_FAILED"}


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(f"Code: {code}. DB::Exception: {text}. ({NAMES.get(code, 'EXCEPTION')}) (version 26.9.2.1)")
        self.code = code


def unescaped(text):
    return re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "r": "\r", "0": "\0"}.get(m[1], m[1]), text)


class Engine:
    def __init__(self, directory):
        self.lock = threading.Lock()
        self.session = session.Session(directory)
        self.faults, self.counts = {}, {"requests": 0, "inserts": 0, "lost": 0, "refused": 0}

    def perform(self, sql, body, url):
        database = url.get("database", "default")
        is_insert = sql.lstrip()[:6].upper() == "INSERT" and " FORMAT " in sql.upper()
        with self.lock:
            self.counts["requests"] += 1
            self.counts["inserts"] += is_insert
            self.trouble(is_insert)
            parameters = {name.removeprefix("param_"): unescaped(value) for name, value in url.items() if name.startswith("param_")}
            try:
                if "database" in url:
                    self.session.query(f"USE `{database}`")
                if is_insert:
                    if "die_after" in self.faults:
                        self.faults["die_after"] -= 1
                        if self.faults["die_after"] == 0:
                            threading.Timer(self.faults["moment"], os._exit, [9]).start()
                    # Not as one text with the statement: the package would end binary data at a newline.
                    head, data_format = re.fullmatch(r"(?s)(.*)\sFORMAT\s+(\w+)\s*", sql).groups()
                    dies = self.faults.get("die_before_view") and "INTO points" in head
                    if dies:
                        view = self.session.query("SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = 'rank_statistics_mv'", "TSVRaw").bytes().decode()
                        self.session.query("DROP VIEW rank_statistics_mv")
                    with self.session.send_insert(head, data_format) as insert:
                        insert.append(body)
                        insert.finish()
                    if dies:
                        self.session.query(view)
                        os._exit(9)
                    return b"", is_insert
                statement = sql + ("\n" + body.decode() if sql and body else body.decode())
                return self.session.query(statement, "TabSeparated", params=parameters or None).bytes(), is_insert
            except Exception as error:  # the package raises several types
                found = re.search(r"Code: (\d+)", str(error))
                refused = Refused(int(found[1]) if found else 1002, "")
                refused.args = (str(error),)
                raise refused from None

    def trouble(self, is_insert):
        if is_insert and self.faults.get("delay"):
            time.sleep(self.faults["delay"])
        if self.faults.get("requests", 0) > 0 and (is_insert or not self.faults.get("inserts")):
            self.faults["requests"] -= 1
            self.counts["refused"] += 1
            raise Refused(self.faults["refuse"], "as the test wants")

    def loses(self):
        every = self.faults.get("lose_every")
        lost = bool(every) and self.counts["inserts"] % every == 0
        self.counts["lost"] += lost
        return lost


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine, account = None, None

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/counts":
            return self.answer(200, json.dumps(self.engine.counts).encode())
        return self.answer(200, b"Ok.\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/fault":
            self.engine.faults = json.loads(body)
            return self.answer(200, b"")
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        url = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
        try:
            given = (self.headers.get("X-ClickHouse-User", "default"), self.headers.get("X-ClickHouse-Key", ""))
            if self.account and given != self.account:
                raise Refused(516, f"{given[0]}: Authentication failed: password is incorrect, or there is no user with such name")
            result, is_insert = self.engine.perform(url.get("query", ""), body, url)
        except Refused as error:
            code = [("X-ClickHouse-Exception-Code", str(error.code))]
            return self.answer(STATUS.get(error.code, 500), str(error).encode() + b"\n", code)
        if is_insert and self.engine.loses():
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return None
        return self.answer(200, result, [("X-ClickHouse-Format", "TabSeparated")])

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--user", default="default")
    parser.add_argument("--password")
    options = parser.parse_args()
    Handler.engine = Engine(options.directory)
    Handler.account = (options.user, options.password) if options.password else None
    server = Server(("127.0.0.1", options.port), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())

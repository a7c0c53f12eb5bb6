"""ClickHouse's engine as a server, for the scripts that check what arrives there; nodes are those of mlflow_site.py."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import mlflow_site

HERE = pathlib.Path(__file__).resolve().parent


class Server:
    """clickhouse_server.py as a process. Its tables stay in `home` when it is killed."""

    def __init__(self, home, *options):
        self.home, self.options, self.port = pathlib.Path(home), options, mlflow_site.free_port()
        self.home.mkdir(parents=True, exist_ok=True)
        self.base = f"http://127.0.0.1:{self.port}"
        self.url = self.base + "/ranklog"
        self.headers = {}
        self.process = None
        self.start()

    def start(self):
        args = [sys.executable, HERE / "clickhouse_server.py", self.home / "data", "--port", str(self.port), *self.options]
        with open(self.home / "log", "ab") as log:
            self.process = subprocess.Popen([str(a) for a in args], stdout=log, stderr=log)
        mlflow_site.wait_for(self.is_up, "the server's start")

    def is_up(self):
        if self.process.poll() is not None:
            raise AssertionError((self.home / "log").read_text()[-3000:])
        try:
            with urllib.request.urlopen(self.base + "/ping", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait()

    def post(self, path, body):
        request = urllib.request.Request(self.base + path, body, self.headers)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code} {error.read().decode()[:600]}") from None

    def ask(self, sql, database="ranklog", **parameters):
        """The rows of an answer; numbers are numbers."""
        query = {"database": database} | {f"param_{name}": str(value) for name, value in parameters.items()}
        text = self.post("/?" + urllib.parse.urlencode(query), (sql + " FORMAT JSONCompactEachRow").encode())
        return [json.loads(line) for line in text.splitlines()]

    def do(self, sql, database="ranklog"):
        self.post("/?" + urllib.parse.urlencode({"database": database}), sql.encode())

    def fault(self, **what):
        self.post("/fault", json.dumps(what).encode())

    def counts(self):
        with urllib.request.urlopen(self.base + "/counts", timeout=60) as answer:
            return json.load(answer)


class Node(mlflow_site.Node):
    def __init__(self, home, daemon, program, cli, **variables):
        self.extra = variables
        super().__init__(home, daemon, program, cli)

    def environment(self):
        return super().environment() | {k: str(v) for k, v in self.extra.items()}

    def log(self):
        return (self.home / "log").read_text()


@contextlib.contextmanager
def site(*programs, nodes=("node",)):
    """A server and its nodes, which end with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, contextlib.ExitStack() as stack:
        server = Server(pathlib.Path(home) / "server")
        stack.callback(lambda: server.kill())
        there = []
        for name in nodes:
            there.append(Node(pathlib.Path(home) / name, *programs, CLICKHOUSE_URL=server.url, RANKLOG_DESTINATIONS="clickhouse"))
            stack.callback(lambda node=there[-1]: node.process.kill())
        yield server, *there


def rank_variables(rank, world, nodes=1):
    """Those of a launcher, with equal nodes."""
    per_node = world // nodes
    return {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank % per_node,
        "LOCAL_WORLD_SIZE": per_node,
        "GROUP_RANK": rank // per_node,
    }


def expect(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: {found!r}, not {expected!r}")

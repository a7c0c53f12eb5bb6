"""A real MLflow server, a daemon, and ranks, for the scripts that check what arrives at MLflow."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from waiting import wait_for  # noqa: E402

TIMEOUT = 60
PASSWORD = "a test of 2026"  # of the user admin


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """The real server: SQLite, files served by itself."""

    def __init__(self, home, options=()):
        self.home, self.options, self.port = pathlib.Path(home), list(options), free_port()
        self.home.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        self.headers = {}
        self.start()

    def start(self):
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        # Basic authentication needs these.
        environment |= {"MLFLOW_FLASK_SERVER_SECRET_KEY": "for a test", "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD}
        program = pathlib.Path(sys.executable).with_name("mlflow")
        args = [program, "server", "--backend-store-uri", f"sqlite:///{self.home}/mlflow.db", "--workers", "1"]
        args += ["--artifacts-destination", f"{self.home}/files", "--host", "127.0.0.1", "--port", str(self.port), *self.options]
        with open(self.home / "log", "ab") as log:
            self.process = subprocess.Popen(args, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=self.home)
        wait_for(self.is_up, "the server's start", 150)  # with basic authentication, 30 s on a busy machine

    def is_up(self):
        if self.process.poll() is not None:
            raise AssertionError((self.home / "log").read_text()[-3000:])
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask(self, path, body=None, **query):
        url = f"{self.url}/api/2.0/mlflow/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", **self.headers})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()[:300]}") from error

    def runs(self, experiment):
        found = self.ask("experiments/get-by-name", experiment_name=experiment)["experiment"]
        return self.ask("runs/search", {"experiment_ids": [found["experiment_id"]], "max_results": 1000}).get("runs", [])

    def history(self, run, key):
        """The points of a metric: [(step, milliseconds, value)], as the server has them."""
        points, token = [], None
        while True:
            more = {"page_token": token} if token else {}
            page = self.ask("metrics/get-history", run_id=run, metric_key=key, max_results=25000, **more)
            points += [(p.get("step", 0), p["timestamp"], p["value"]) for p in page.get("metrics", [])]
            token = page.get("next_page_token")
            if not token:
                return points

    def file(self, path):
        url = f"{self.url}/api/2.0/mlflow-artifacts/artifacts/{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=self.headers), timeout=TIMEOUT) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return b""


class Node:
    """A node: a daemon, and the ranks that it serves."""

    def __init__(self, home, daemon, program, cli):
        self.home, self.daemon, self.program, self.cli = pathlib.Path(home), daemon, program, cli
        self.home.mkdir(mode=0o700)
        self.process = None
        self.variables = {}
        self.start()

    def environment(self):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "RANKLOG_ADDRESS": f"unix:{self.home}/d.sock",
            "RANKLOG_SPOOL_DIR": f"{self.home}/spool",
            "RANKLOG_STATE_DIR": f"{self.home}/state",
            "RANKLOG_START_DAEMON": "false",
            "RANKLOG_QUIET": "1",
            "RANKLOG_FINISH": "durable",
            "RANKLOG_METADATA": "0",
            "RANKLOG_SYSTEM_METRICS": "0",
            "RANKLOG_RANK_STATISTICS": "none",
            "RANKLOG_NODE": self.home.name,
            **self.variables,
        }

    def start(self):
        args = [self.daemon, "--listen", f"unix:{self.home}/d.sock", "--state-dir", f"{self.home}/state"]
        args += ["--spool-dir", f"{self.home}/spool", "--transmit-interval", "1s", "--sample-interval", "500ms"]
        with open(self.home / "log", "ab") as log:
            self.process = subprocess.Popen(args, env=self.environment(), stdout=log, stderr=log)

        def accepts():
            if self.process.poll() is not None:
                raise AssertionError((self.home / "log").read_text()[-3000:])
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(f"{self.home}/d.sock") == 0

        wait_for(accepts, "the daemon's start")

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(TIMEOUT)

    def rank(self, calls, console=False, stopped_console=False, stderr=None, **variables):
        """Starts a rank that performs the calls of ranklog_scenarios.cc. `stopped_console`: the process that reads its console waits for a SIGCONT."""
        file = self.home / f"calls-{time.monotonic_ns()}.json"
        file.write_text(json.dumps({"calls": calls}))
        environment = {**self.environment(), **{k: str(v) for k, v in variables.items()}}
        through = [self.cli, "exec", "--"] if console or stopped_console else []
        if stopped_console:
            through += ["sh", "-c", 'kill -STOP $PPID; exec "$0" "$1"']
        return subprocess.Popen([*through, self.program, file], env=environment, cwd=self.home, stdout=subprocess.DEVNULL, stderr=stderr)

    def run_rank(self, calls, console=False, **variables):
        assert self.rank(calls, console, **variables).wait(TIMEOUT) == 0

    def ranklog(self, *args, code=0, stdin=None, errors=False, **variables):
        environment = {**self.environment(), **variables}
        done = subprocess.run([self.cli, *args], input=stdin, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        assert code is None or done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stderr if errors else done.stdout

    def destination(self, run, kind="mlflow"):
        for one in json.loads(self.ranklog("runs", "--json")):
            if one["run_id"] == run:
                return next((d for d in one["destinations"] if d["kind"] == kind), None)
        return None

    def await_delivery(self, run, kind="mlflow", seconds=TIMEOUT):
        def settled():
            found = self.destination(run, kind)
            return found is not None and found["complete"]

        try:
            return wait_for(settled, f"the delivery of {run}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.ranklog('status')}\n{(self.home / 'log').read_text()[-2000:]}") from None


@contextlib.contextmanager
def site(*programs):
    """A server and a node, which end with the block."""
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        server = Server(pathlib.Path(home) / "server")
        stack.callback(lambda: server.process.poll() is None and server.kill())
        node = Node(pathlib.Path(home) / "node", *programs)
        stack.callback(lambda: node.process.kill())
        yield server, node

"""What a dead MLflow server does to a training: the time of a call that logs 10 values, with the server up and dead, of
Ranklog and of the official client, in one run. Fails if Ranklog's calls become slower, if the client does not block, or
if a row is missing once the server is back.

    mlflow_outage.py RANKLOGD RANKLOG_SCENARIOS RANKLOG [--seconds N]

Ranklog's Python package is that of the build: `ninja ranklog_python`.
"""

import json
import os
import pathlib
import subprocess
import sys

import mlflow_site

CALLS = 2000
# Both print the times of their calls in microseconds, ascending.
OURS = """
import json, sys, time
import ranklog
run = ranklog.init(id=sys.argv[1], project="outage")
taken = []
for step in range(int(sys.argv[2])):
    values = {f"m{key}": step + key / 16 for key in range(10)}
    start = time.perf_counter()
    run.log(values, step=step)
    taken.append((time.perf_counter() - start) * 1e6)
    time.sleep(0.001)
start = time.perf_counter()
run.finish()
print(json.dumps({"calls": sorted(taken), "end": time.perf_counter() - start}))
"""
# Begins a run, waits for a line, and ends after some seconds even if a call blocks.
THEIRS = """
import json, os, sys, threading, time
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
mlflow.start_run()
print("begun", flush=True)
sys.stdin.readline()
taken = []
begun = time.perf_counter()
def end():
    print(json.dumps({"calls": sorted(taken), "waits": time.perf_counter() - begun}), flush=True)
    os._exit(0)
threading.Timer(float(sys.argv[2]), end).start()
for step in range(200):
    begun = time.perf_counter()
    mlflow.log_metrics({f"m{key}": step + key / 16 for key in range(10)}, step=step)
    taken.append((time.perf_counter() - begun) * 1e6)
end()
"""


def ours(server, node, run_id):
    python = pathlib.Path(node.daemon).parents[1] / "python"
    environment = {**node.environment(), "PYTHONPATH": str(python), "MLFLOW_TRACKING_URI": server.url}
    done = subprocess.run([sys.executable, "-c", OURS, run_id, str(CALLS)], env=environment, stdout=subprocess.PIPE, check=True, timeout=mlflow_site.TIMEOUT)
    return json.loads(done.stdout)


def client(server, patience):
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    args = [sys.executable, "-c", THEIRS, server.url, str(patience)]
    begun = subprocess.Popen(args, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    begun.stdout.readline()
    return begun


def result(client):
    return json.loads(client.communicate("go\n", timeout=2 * mlflow_site.TIMEOUT)[0])


def text(what, calls):
    at = [calls[int(len(calls) * share)] for share in (0.5, 0.99)]
    return f"{what}: p50 {at[0]:.1f} µs, p99 {at[1]:.1f} µs, longest {calls[-1]:.0f} µs"


def main():
    daemon, program, cli, *options = sys.argv[1:]
    patience = float(options[1]) if options[:1] == ["--seconds"] else 15
    with mlflow_site.site(daemon, program, cli) as (server, node):
        up = ours(server, node, "up")
        theirs_up = result(client(server, mlflow_site.TIMEOUT))
        waiting = client(server, patience)
        server.kill()
        dead = ours(server, node, "dead")
        theirs_dead = result(waiting)
        server.start()
        print(text("Ranklog, server up  ", up["calls"]) + f", end {up['end'] * 1000:.0f} ms")
        print(text("Ranklog, server dead", dead["calls"]) + f", end {dead['end'] * 1000:.0f} ms")
        print(text("log_metrics, server up  ", theirs_up["calls"]))
        print(f"log_metrics, server dead: {len(theirs_dead['calls'])} calls ended; the next one had blocked for {theirs_dead['waits']:.1f} s when it was stopped")
        node.await_delivery("dead", seconds=180)
        (run,) = [run for run in server.runs("outage") if run["info"]["run_name"] == "dead"]
        assert len(server.history(run["info"]["run_id"], "m3")) == CALLS
        node.ranklog("verify", "dead")
        median = [calls[len(calls) // 2] for calls in (up["calls"], dead["calls"])]
        assert median[1] < 2 * median[0] and dead["end"] < 5, (median, dead["end"])
        assert not theirs_dead["calls"] and theirs_dead["waits"] >= patience - 1, theirs_dead


if __name__ == "__main__":
    main()

"""How fast points arrive at one MLflow server: from Ranklog, from a plain loop that posts prepared requests of the best
size, and from the official client's log_metrics. Fails if Ranklog has less than 0.9 of the loop, or 10 times the client.

    mlflow_speed.py RANKLOGD RANKLOG_SCENARIOS RANKLOG [--rows N]
"""

import http.client
import json
import os
import sys
import time

import mlflow_site

KEYS = 10
BEST = 1000  # points of a request


def plain_loop(server, rows):
    """Points per second."""
    run = server.ask("runs/create", {"experiment_id": "0", "start_time": 1})["run"]["info"]["run_id"]
    points = [{"key": f"m{key}", "value": row + key / 16, "timestamp": 1_700_000_000_000 + row, "step": row} for row in range(rows) for key in range(KEYS)]
    bodies = [json.dumps({"metrics": points[i : i + BEST], "run_id": run}).encode() for i in range(0, len(points), BEST)]
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    start = time.monotonic()
    for body in bodies:
        connection.request("POST", "/api/2.0/mlflow/runs/log-batch", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
    return len(points) / (time.monotonic() - start)


def ranklog(server, node, name, rows):
    calls = [{"log": {f"m{key}": row + key / 16 for key in range(KEYS)}, "step": row} for row in range(rows)]
    node.run_rank([*calls, {"finish": 0}], RANKLOG_RUN_ID=name, RANKLOG_PROJECT="speed", RANKLOG_DESTINATIONS="local")
    node.stop()
    start = time.monotonic()
    node.ranklog("sync", name, "--to", "mlflow", MLFLOW_TRACKING_URI=server.url)
    taken = time.monotonic() - start
    node.start()
    node.ranklog("verify", name)
    return rows * KEYS / taken


def official_client(server, calls):
    import mlflow

    mlflow.set_tracking_uri(server.url)
    with mlflow.start_run():
        start = time.monotonic()
        for step in range(calls):
            mlflow.log_metrics({f"m{key}": step + key / 16 for key in range(KEYS)}, step=step)
        return calls * KEYS / (time.monotonic() - start)


def main():
    daemon, program, cli, *options = sys.argv[1:]
    rows = int(options[1]) if options[:1] == ["--rows"] else 5000
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    with mlflow_site.site(daemon, program, cli) as (server, node):
        loop, ours = [], []
        for turn in range(3):  # in turns, because the machine's speed may change
            loop.append(plain_loop(server, rows))
            ours.append(ranklog(server, node, f"speed-{turn}", rows))
        client = official_client(server, 300)
        of_loop, of_client = max(ours) / max(loop), max(ours) / client
        print(f"points per second: plain loop {loop}, Ranklog {ours}, log_metrics {client:.0f}")
        print(f"Ranklog: {of_loop:.2f} of the plain loop, {of_client:.1f} times log_metrics")
        assert of_loop >= 0.9 and of_client >= 10


if __name__ == "__main__":
    main()

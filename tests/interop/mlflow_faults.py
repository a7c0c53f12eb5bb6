"""Faults in front of a real MLflow server: every point arrives exactly once.

    mlflow_faults.py RANKLOGD RANKLOG_SCENARIOS RANKLOG FAKE_WANDB [--requests N] [TRIAL...]
"""

import contextlib
import json
import signal
import subprocess
import sys

import cutting_proxy
import mlflow_site

KEYS = 10


def rows(first, count):
    return [{"log": {f"m{key}": step + key / 16 for key in range(KEYS)}, "step": step} for step in range(first, first + count)]


def check(server, node, run_id, count):
    """The server has the points of `count` rows, each once, and `verify` agrees."""
    (run,) = [r for r in server.runs("faults") if r["info"]["run_name"] == run_id]
    for key in range(KEYS):
        points = sorted((step, value) for step, _, value in server.history(run["info"]["run_id"], f"m{key}"))
        expected = [(step, step + key / 16) for step in range(count)]
        if points != expected:
            lacking, extra = set(expected) - set(points), len(points) - len(set(points))
            raise AssertionError(f"{run_id}, m{key}: {len(points)} points, {len(lacking)} missing, {extra} twice")
    (found,) = [d for d in json.loads(node.ranklog("verify", run_id, "--json"))["destinations"] if d["kind"] == "mlflow"]
    assert found["ok"] and found["there"] == count, found
    assert run["info"]["status"] == "FINISHED", run["info"]
    return run


def cuts(site, requests):
    """A proxy cuts every fourth request, half of them after the server has acted. Daemons are killed, too."""
    server, node, proxy = site
    count = requests * 500 // KEYS  # a request has 1000 points, but after a cut 100: at this share of cuts, 460
    proxy.before = proxy.after = 0.12
    ranks = []
    part = 500
    for first in range(0, count, part):
        ranks += rows(first, min(part, count - first)) + [{"pause": 0.3}]
    rank = node.rank([*ranks, {"finish": 0}], RANKLOG_RUN_ID="cuts", RANKLOG_NAME="cuts", MLFLOW_TRACKING_URI=proxy.url)
    for _ in range(3):
        mlflow_site.wait_for(lambda before=proxy.counts["passed"]: proxy.counts["passed"] > before + 3, "some requests")
        node.stop(signal.SIGKILL)
        node.start()
    assert rank.wait(mlflow_site.TIMEOUT) == 0
    node.await_delivery("cuts", seconds=1800)
    proxy.before = proxy.after = 0
    check(server, node, "cuts", count)
    print(f"cuts: {count * KEYS} points, requests {proxy.counts}", flush=True)
    assert min(proxy.counts.values()) > 0, proxy.counts


def server_killed(site, _):
    """The server is killed in the middle, and starts again."""
    server, node, proxy = site
    rank = node.rank([*rows(0, 2000), {"pause": 3}, *rows(2000, 2000), {"finish": 0}], RANKLOG_RUN_ID="killed", RANKLOG_NAME="killed", MLFLOW_TRACKING_URI=proxy.url)
    mlflow_site.wait_for(lambda: (node.destination("killed") or {}).get("delivered_rows", 0) > 500, "some rows")
    server.kill()
    assert rank.wait(mlflow_site.TIMEOUT) == 0
    server.start()
    node.await_delivery("killed", seconds=300)
    check(server, node, "killed", 4000)


def run_deleted(site, _):
    """A run is deleted at the server: its rest is a dead letter, and the other runs go on."""
    server, node, proxy = site
    file = node.home / "go"
    rank = node.rank([*rows(0, 50), {"await": str(file)}, *rows(50, 50), {"finish": 0}], RANKLOG_RUN_ID="gone", RANKLOG_NAME="gone", MLFLOW_TRACKING_URI=proxy.url)
    mlflow_site.wait_for(lambda: (node.destination("gone") or {}).get("delivered_rows", 0) >= 49, "the first rows")  # the last step is open
    (run,) = [r for r in server.runs("faults") if r["info"]["run_name"] == "gone"]
    server.ask("runs/delete", {"run_id": run["info"]["run_id"]})
    file.touch()
    assert rank.wait(mlflow_site.TIMEOUT) == 0
    node.run_rank([*rows(0, 100), {"finish": 0}], RANKLOG_RUN_ID="other", RANKLOG_NAME="other", MLFLOW_TRACKING_URI=proxy.url)
    node.await_delivery("other")
    check(server, node, "other", 100)
    node.await_delivery("gone", seconds=150)
    found = node.destination("gone")
    refused = found["refused_rows"]
    assert refused in (50, 51), found
    letters = node.ranklog("dead", "gone")
    assert f"rows {100 - refused} to 99: the run is deleted at the server" in letters, letters


def other_destination(site, _):
    """The server cannot be reached: W&B is up to date, and `status` shows both."""
    server, node, proxy = site
    with subprocess.Popen([node.fake_wandb, "0"], stdout=subprocess.PIPE, text=True) as wandb, contextlib.ExitStack() as stack:
        stack.callback(wandb.kill)
        node.variables |= {"WANDB_BASE_URL": wandb.stdout.readline().strip(), "WANDB_API_KEY": "0123456789" * 4}
        variables = {"MLFLOW_TRACKING_URI": proxy.url, "RANKLOG_DESTINATIONS": "wandb,mlflow"}
        proxy.down = True
        node.run_rank([*rows(0, 100), {"finish": 0}], RANKLOG_RUN_ID="both", RANKLOG_NAME="both", **variables)
        node.await_delivery("both", "wandb")
        shown = {line.split()[0]: line.split()[1:3] for line in node.ranklog("status").splitlines() if line.startswith(("mlflow  ", "wandb  "))}
        assert shown["mlflow"][1] == "100" and shown["wandb"][1] == "0", shown
        proxy.down = False
        node.await_delivery("both", seconds=150)
        check(server, node, "both", 100)


def main():
    daemon, program, cli, fake_wandb, *chosen = sys.argv[1:]
    requests = 100
    if chosen[:1] == ["--requests"]:
        requests, chosen = int(chosen[1]), chosen[2:]
    with mlflow_site.site(daemon, program, cli) as (server, node):
        proxy = cutting_proxy.CuttingProxy(server.port)
        node.variables = {"RANKLOG_PROJECT": "faults"}
        node.fake_wandb = fake_wandb
        for trial in (cuts, server_killed, run_deleted, other_destination):
            if chosen and trial.__name__ not in chosen:
                continue
            trial((server, node, proxy), requests)
            print(f"{trial.__name__}: as expected", flush=True)


if __name__ == "__main__":
    main()

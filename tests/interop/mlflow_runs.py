"""What arrives at a real MLflow server (S16).

    mlflow_runs.py RANKLOGD RANKLOG_SCENARIOS RANKLOG [SCENARIO...]
"""

import base64
import contextlib
import json
import signal
import ssl
import subprocess
import sys

import cutting_proxy
import mlflow_site

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def rows(count, first=0):
    return [{"log": {"loss": 1 / (step + 1), "x[0]": step}, "step": step} for step in range(first, first + count)]


def tags(run):
    return {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}


def params(run):
    return {param["key"]: param["value"] for param in run["data"].get("params", [])}


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: {found!r}, not {expected!r}")


def contains(whole, part, what):
    missing = {key: value for key, value in part.items() if whole.get(key) != value}
    if missing:
        raise AssertionError(f"{what}: {whole!r} lacks {missing!r}")


@scenario
def one_run(server, node):
    """A run with everything: points, params, tags, summary, end, and a text, which the server cannot hold."""
    special = {"nan": "$nan", "up": "$inf", "down": "$-inf", "flag": True, "note": "text"}
    calls = [{"config": {"lr": 0.1, "model": {"layers": 12}, "debug": False}}, *rows(1200), {"log": special, "step": 1200}]
    calls += [{"define": {"name": "loss", "summary": ["min"]}}, {"summary": {"best": 0.25, "verdict": "good"}}, {"finish": 0}]
    node.run_rank(calls, RANKLOG_RUN_ID="one", RANKLOG_PROJECT="p1", RANKLOG_NAME="first", RANKLOG_TAGS="a,b c", RANKLOG_NOTES="my notes")
    node.await_delivery("one")
    (run,) = server.runs("p1")
    equal((run["info"]["run_name"], run["info"]["status"]), ("first", "FINISHED"), "run")
    assert run["info"]["end_time"] >= run["info"]["start_time"] > 1.7e12, run["info"]
    contains(params(run), {"lr": "0.1", "model.layers": "12", "debug": "False", "rank": "0"}, "params")
    contains(tags(run), {"a": "true", "b c": "true", "mlflow.note.content": "my notes", "ranklog.run_id": "one", "ranklog.summary.verdict": "good"}, "tags")
    points = server.history(run["info"]["run_id"], "loss")
    equal([(step, value) for step, _, value in points], [(s, 1 / (s + 1)) for s in range(1200)], "loss")
    equal(len(server.history(run["info"]["run_id"], "x_x005B_0_x005D_")), 1200, "points of x[0]")
    latest = {metric["key"]: metric["value"] for metric in run["data"]["metrics"]}
    contains(latest, {"best": 0.25, "loss.min": 1 / 1200, "nan": "NaN", "flag": 1.0, "up": sys.float_info.max, "down": -sys.float_info.max}, "latest")
    # One row has a text. `verify` counts and names it.
    report = node.ranklog("verify", "one", code=1)
    assert "1 row there without values that MLflow cannot hold: note; see `ranklog dead one`" in report, report
    assert "config" in report and "all is there" not in report, report
    (found,) = [d for d in json.loads(node.ranklog("verify", "one", "--json", code=1))["destinations"] if d["kind"] == "mlflow"]
    equal((found["sent"], found["there"], found["dead_letters"], found["missing"], len(found["problems"])), (1201, 1200, 1, 0, 1), "verify")
    assert "key note" in node.ranklog("dead", "one"), "the text is not told"


@scenario
def children(server, node):
    """The ranks of a job are children of one parent."""
    for rank in (0, 1):
        exit_code = 3 * rank
        settings = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2, "RANKLOG_LOG_STRATEGY": "all"}
        node.run_rank([*rows(5), {"finish": exit_code}], RANKLOG_RUN_ID="job", RANKLOG_PROJECT="p2", RANKLOG_NAME="gpt", **settings)
    for rank in (0, 1):
        node.await_delivery(f"job-{rank}")
    runs = {run["info"]["run_name"]: run for run in server.runs("p2")}
    equal(sorted(runs), ["gpt", "rank-0", "rank-1"], "runs")
    parent = runs["gpt"]["info"]
    equal({tags(runs[f"rank-{r}"])["mlflow.parentRunId"] for r in (0, 1)}, {parent["run_id"]}, "parents")
    equal([runs[n]["info"]["status"] for n in ("rank-0", "rank-1", "gpt")], ["FINISHED", "FAILED", "FAILED"], "status")


@scenario
def two_parents(server, node):
    """Another daemon made a second parent, after ours had been found: all children move to one of them, and the other one is deleted."""
    server.ask("experiments/create", {"name": "p8"})
    go = node.home / "go"
    calls = [*rows(3), {"await": str(go)}, {"finish": 0}]
    rank = node.rank(calls, RANKLOG_RUN_ID="twin", RANKLOG_PROJECT="p8", RANKLOG_LOG_STRATEGY="all")
    own = mlflow_site.wait_for(lambda: [run for run in server.runs("p8") if "mlflow.parentRunId" in tags(run)], "the run")[0]["info"]
    (lost,) = [run for run in server.runs("p8") if "ranklog.job" in tags(run)]
    job = {"experiment_id": own["experiment_id"], "start_time": 1, "tags": [{"key": "ranklog.job", "value": tags(lost)["ranklog.job"]}]}
    lost = lost["info"]["run_id"]
    for _ in range(100):  # the server chooses the id
        kept = server.ask("runs/create", job)["run"]["info"]["run_id"]
        if kept < lost:
            break
        server.ask("runs/delete", {"run_id": kept})
    count = 101  # more than a page of the search
    for end in range(1, count + 1):
        child = {"experiment_id": own["experiment_id"], "start_time": 1, "tags": [{"key": "mlflow.parentRunId", "value": lost}]}
        made = server.ask("runs/create", child)["run"]["info"]["run_id"]
        server.ask("runs/update", {"run_id": made, "status": "KILLED" if end == 50 else "FINISHED", "end_time": end})
    go.touch()
    equal(rank.wait(mlflow_site.TIMEOUT), 0, "exit code")
    node.await_delivery("twin-0")
    runs = {run["info"]["run_id"]: run for run in server.runs("p8")}
    equal([run["info"]["run_id"] for run in runs.values() if "ranklog.job" in tags(run)], [kept], "parents")
    children = [run for run in runs.values() if tags(run).get("mlflow.parentRunId") == kept]
    equal((len(runs), len(children)), (count + 2, count + 1), "runs and children")
    equal((runs[kept]["info"]["status"], runs[kept]["info"]["end_time"]), ("KILLED", runs[own["run_id"]]["info"]["end_time"]), "the parent's end")


@scenario
def given_run(server, node):
    """MLFLOW_RUN_ID continues a run; its earlier points stay."""
    experiment = server.ask("experiments/create", {"name": "mine"})["experiment_id"]
    made = server.ask("runs/create", {"experiment_id": experiment, "run_name": "theirs", "start_time": 1})["run"]["info"]["run_id"]
    server.ask("runs/log-metric", {"run_id": made, "key": "loss", "value": 9, "timestamp": 1, "step": 4})
    server.ask("runs/log-parameter", {"run_id": made, "key": "lr", "value": "0.3"})
    calls = [{"config": {"lr": 0.1}}, *rows(10), {"finish": 0}]
    node.run_rank(calls, RANKLOG_RUN_ID="continued", RANKLOG_PROJECT="p3", MLFLOW_RUN_ID=made)
    node.await_delivery("continued")
    run = server.ask("runs/get", run_id=made)["run"]
    equal(sorted(step for step, _, _ in server.history(made, "loss")), sorted([*range(10), 4]), "steps")
    equal((run["info"]["status"], params(run)["lr"], tags(run)["ranklog.config.lr"]), ("FINISHED", "0.3", "0.1"), "run")
    node.ranklog("verify", "continued")
    names = [one["name"] for one in server.ask("experiments/search", {"max_results": 100})["experiments"]]
    assert "p3" not in names, names


@scenario
def wrong_settings(server, node):
    """An experiment or a run that the server does not have: the run waits and `status` tells what to do; `sync --set` corrects it."""
    other = server.ask("experiments/create", {"name": "other"})["experiment_id"]
    gone = server.ask("experiments/create", {"name": "gone"})["experiment_id"]
    server.ask("experiments/delete", {"experiment_id": gone})
    wrong = {
        "no-experiment": ({"MLFLOW_EXPERIMENT_ID": "987654"}, "no experiment '987654'", f"MLFLOW_EXPERIMENT_ID={other}"),
        "no-number": ({"MLFLOW_EXPERIMENT_ID": "nonsense"}, "no experiment 'nonsense'", "MLFLOW_EXPERIMENT_ID="),
        "deleted": ({"MLFLOW_EXPERIMENT_NAME": "gone"}, "experiment gone is deleted", "MLFLOW_EXPERIMENT_NAME=new"),
        "no-run": ({"MLFLOW_RUN_ID": "f" * 32}, f"no run '{'f' * 32}'", "MLFLOW_RUN_ID="),
    }
    for run_id, (settings, _, _) in wrong.items():
        node.run_rank([*rows(3), {"finish": 0}], RANKLOG_RUN_ID=run_id, RANKLOG_PROJECT="p9", **settings)
    for run_id, (_, message, correct) in wrong.items():
        error = mlflow_site.wait_for(lambda name=run_id: (node.destination(name) or {}).get("last_error"), "the error")
        assert message in error and f"ranklog sync {run_id} --set {correct.split('=')[0]}=" in error, error
        assert message in node.ranklog("status"), node.ranklog("status")
        told = node.ranklog("sync", run_id, "--set", correct, errors=True)
        assert message not in told, f"an error of before: {told}"
        node.ranklog("verify", run_id)
        node.ranklog("sync", run_id, "--set", "MLFLOW_EXPERIMENT_ID=0", code=1)  # it has its place
    equal(sorted(run["info"]["run_name"] for run in server.runs("p9")), ["no-number", "no-run"], "runs of the project")
    equal([run["info"]["run_name"] for run in server.runs("other")], ["no-experiment"], "runs of the other experiment")
    equal([run["info"]["run_name"] for run in server.runs("new")], ["deleted"], "runs of the new experiment")
    node.ranklog("sync", "no-run", "--set", "MLFLOW_NONSENSE=1", code=2)
    # A run that is named alone gets the other settings, too.
    node.run_rank([*rows(3), {"finish": 0}], RANKLOG_RUN_ID="plain", RANKLOG_PROJECT="p9", RANKLOG_DESTINATIONS="local", MLFLOW_TRACKING_URI="")
    node.ranklog("sync", "plain", "--to", "mlflow", MLFLOW_TRACKING_URI=server.url, MLFLOW_EXPERIMENT_NAME="chosen")
    equal([run["info"]["run_name"] for run in server.runs("chosen")], ["plain"], "runs of the chosen experiment")
    # A delivered run stays in its experiment.
    told = node.ranklog("sync", "plain", errors=True, MLFLOW_EXPERIMENT_NAME="other")
    assert "MLFLOW_EXPERIMENT_NAME=other is not used: run plain is at MLflow already" in told, told
    equal(node.ranklog("sync", "plain", errors=True, MLFLOW_EXPERIMENT_NAME="chosen"), "", "the experiment of the run")


@scenario
def files(server, node):
    """Artifacts, files, the console, and system metrics."""
    calls = [{"files": {"model.txt": "weights", "deep/er.txt": "more"}, "artifact": {"name": "gpt", "type": "model", "aliases": ["best"]}}]
    calls += [{"files": {"notes.txt": "hello"}, "save": "notes.txt"}, *rows(3), {"print": "printed"}, {"pause": 1.5}, {"finish": 0}]
    node.run_rank(calls, console=True, RANKLOG_RUN_ID="files", RANKLOG_PROJECT="p5", RANKLOG_SYSTEM_METRICS="1")
    node.await_delivery("files")
    (run,) = server.runs("p5")
    root = run["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/")
    equal(server.file(f"{root}/artifacts/gpt/model.txt"), b"weights", "a file of the artifact")
    equal(server.file(f"{root}/artifacts/gpt/deep/er.txt"), b"more", "a file of the artifact")
    equal(server.file(f"{root}/notes.txt"), b"hello", "a file")
    assert b"printed\n" in server.file(f"{root}/output.log"), server.file(f"{root}/output.log")
    assert '"best"' in tags(run)["ranklog.artifact.gpt"], tags(run)
    cpu = server.history(run["info"]["run_id"], "system/node/cpu_utilization_percentage")
    assert len(cpu) >= 2 and cpu[0][0] == 0, cpu


@scenario
def late_console(server, node):
    """The process that reads the console joins when the run was delivered: the console follows."""
    rank = node.rank([*rows(3), {"print": "printed"}, {"finish": 0}], stopped_console=True, RANKLOG_RUN_ID="late", RANKLOG_PROJECT="p7")
    try:
        node.await_delivery("late")
        (run,) = server.runs("p7")
        path = f"{run['info']['artifact_uri'].removeprefix('mlflow-artifacts:/')}/output.log"
        equal(server.file(path), b"", "the console before")
    finally:
        rank.send_signal(signal.SIGCONT)
    equal(rank.wait(mlflow_site.TIMEOUT), 0, "exit code")
    mlflow_site.wait_for(lambda: b"printed\n" in server.file(path), "the console")
    node.await_delivery("late")
    equal(server.runs("p7")[0]["info"]["status"], "FINISHED", "status")


@scenario
def credentials(server, node):
    """A server with basic authentication: without a credential the run waits, and `ranklog login` stores one."""
    with contextlib.ExitStack() as stack:
        strict = mlflow_site.Server(server.home / "strict", ["--app-name", "basic-auth"])
        stack.callback(strict.kill)
        account = base64.b64encode(f"admin:{mlflow_site.PASSWORD}".encode()).decode()
        strict.headers = {"Authorization": f"Basic {account}"}
        there = {"MLFLOW_TRACKING_URI": strict.url, "RANKLOG_PROJECT": "p6"}
        node.run_rank([*rows(3), {"finish": 0}], RANKLOG_RUN_ID="waits", **there)
        error = mlflow_site.wait_for(lambda: (node.destination("waits") or {}).get("last_error"), "the refusal")
        assert "401" in error and f"ranklog login mlflow --base-url {strict.url}" in error, error
        own = {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": mlflow_site.PASSWORD}
        node.run_rank([*rows(3), {"finish": 0}], RANKLOG_RUN_ID="has", **there, **own)
        node.await_delivery("has")
        login = ("login", "mlflow", "--base-url", strict.url, "--user", "admin")
        node.ranklog(*login, code=1, stdin="wrong")
        node.ranklog(*login, stdin=mlflow_site.PASSWORD)
        node.await_delivery("waits")
        equal(len(strict.runs("p6")), 2, "runs")
        node.ranklog("verify", "waits")


def certificate(home, name):
    """A file with a certificate that it signs itself, and its key."""
    file = home / f"{name}.pem"
    args = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    parts = [home / f"{name}.{part}" for part in ("key", "crt")]
    subprocess.run([*args, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", parts[0], "-out", parts[1]], check=True, stderr=subprocess.DEVNULL)
    file.write_bytes(b"".join(part.read_bytes() for part in parts))
    return file, parts[1]


@scenario
def encrypted(server, node):
    """A server with a certificate of its own, which wants one of ours."""
    (own, public), (client, known) = (certificate(server.home, name) for name in ("server", "client"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # With TLS 1.3 a client has sent its request before the server refuses its certificate. The reset of the closed
    # connection then often overtakes the alert, and the client cannot know the reason.
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(own)
    tls.load_verify_locations(known)
    tls.verify_mode = ssl.CERT_REQUIRED
    proxy = cutting_proxy.CuttingProxy(server.port, tls=tls)
    there = {"MLFLOW_TRACKING_URI": proxy.url, "RANKLOG_PROJECT": "p10"}
    trusts = {"MLFLOW_TRACKING_SERVER_CERT_PATH": str(public)}
    proves = {"MLFLOW_TRACKING_CLIENT_CERT_PATH": str(client)}
    settings = {"unknown": proves, "unproven": trusts, "trusted": trusts | proves, "unchecked": proves | {"MLFLOW_TRACKING_INSECURE_TLS": "true"}}
    for run_id, variables in settings.items():
        node.run_rank([*rows(3), {"finish": 0}], RANKLOG_RUN_ID=run_id, **there, **variables)
    for run_id in ("trusted", "unchecked"):
        node.await_delivery(run_id)
        node.ranklog("verify", run_id)
    for run_id, why in {"unknown": "certificate", "unproven": "alert"}.items():
        error = mlflow_site.wait_for(lambda name=run_id: (node.destination(name) or {}).get("last_error"), "the refusal")
        assert why in error, error
    assert "tracker" in node.ranklog("doctor", **there, **trusts, **proves, code=None)
    equal(len(server.runs("p10")), 2, "runs")
    proxy.close()


@scenario
def plain_http(server, node):
    """Plain HTTP to another machine, of which 0.0.0.0 has the role: with a warning, but not with a password."""
    there = {"MLFLOW_TRACKING_URI": f"http://0.0.0.0:{server.port}", "RANKLOG_PROJECT": "p11"}
    rank = node.rank([*rows(3), {"finish": 0}], stderr=subprocess.PIPE, RANKLOG_RUN_ID="plain-http", RANKLOG_QUIET="0", **there)
    told = rank.communicate(timeout=mlflow_site.TIMEOUT)[1].decode()
    equal(told.count("is not encrypted"), 1, "warnings")
    node.await_delivery("plain-http")
    node.ranklog("verify", "plain-http")
    password = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "secret"}
    node.run_rank([*rows(3), {"finish": 0}], RANKLOG_RUN_ID="with-password", **there, **password)
    error = mlflow_site.wait_for(lambda: (node.destination("with-password") or {}).get("last_error"), "the refusal")
    assert "http:// is refused" in error and "RANKLOG_ALLOW_HTTP=1" in error, error
    node.run_rank([*rows(3), {"finish": 0}], RANKLOG_RUN_ID="allowed", RANKLOG_ALLOW_HTTP="1", **there, **password)
    node.await_delivery("allowed")


@scenario
def odd_names(server, node):
    """Empty names, and values that are too long."""
    config = {"": 1, "a": {"": 2}, "long": "x" * 6001}
    calls = [{"config": config}, {"log": {"_x_": 1}, "step": 0}, {"summary": {"text": "y" * 8001, "": "empty"}}, {"finish": 0}]
    node.run_rank(calls, RANKLOG_RUN_ID="odd", RANKLOG_PROJECT="p12", RANKLOG_NOTES="é" * 8002)
    node.await_delivery("odd")
    (run,) = server.runs("p12")
    contains(params(run), {"_x_": "1", "a.": "2", "long": "x" * 6000}, "params")
    equal([len(tags(run)[name]) for name in ("ranklog.summary.text", "mlflow.note.content")], [8000, 8000], "lengths of tags")
    contains(tags(run), {"ranklog.summary.": "empty"}, "tags")
    contains({metric["key"]: metric["value"] for metric in run["data"]["metrics"]}, {"_x005F_x_": 1.0}, "metrics")
    letters = node.ranklog("dead", "odd")
    for text in ("param long: 6001 characters", "tag mlflow.note.content: 8002 characters", "tag ranklog.summary.text: 8001 characters"):
        equal(letters.count(f"{text}; MLflow has the first"), 1, text)
    node.ranklog("verify", "odd")


@scenario
def old_local_run(server, node):
    """Runs that stayed on the node are sent later: by the daemon, and without one. Their ranks had no address of a server."""
    for run_id in ("beside", "alone", "kept"):
        node.run_rank([*rows(20), {"finish": 0}], RANKLOG_RUN_ID=run_id, RANKLOG_PROJECT="p4", RANKLOG_DESTINATIONS="local", MLFLOW_TRACKING_URI="")
    with_address = {"MLFLOW_TRACKING_URI": server.url}
    node.ranklog("sync", "beside", "--to", "mlflow", **with_address)
    node.stop()
    try:
        node.ranklog("sync", "alone", "--to", "mlflow", **with_address)
    finally:
        node.start()
    runs = {run["info"]["run_name"]: run["info"]["run_id"] for run in server.runs("p4")}
    equal(sorted(runs), ["alone", "beside"], "runs")
    for run_id, found in runs.items():
        equal(len(server.history(found, "loss")), 20, "points")
        node.ranklog("verify", run_id)
    node.ranklog("sync", "beside", "--to", "mlflow", **with_address)  # it is there
    node.ranklog("sync", "kept", "--to", "mlflow", code=1, MLFLOW_TRACKING_URI="")


def main():
    daemon, program, cli, *chosen = sys.argv[1:]
    with mlflow_site.site(daemon, program, cli) as (server, node):
        node.variables = {"MLFLOW_TRACKING_URI": server.url}
        for name in chosen or SCENARIOS:
            SCENARIOS[name](server, node)
            print(f"{name}: as expected", flush=True)


if __name__ == "__main__":
    main()

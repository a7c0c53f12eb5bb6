"""The official SDK and our delivery log the same run. The server must then have the same data for both, and the SDK must
be able to read ours back.

    compare.py FAKE_WANDB DELIVER_RUN
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).parent
ROWS = 50
TIMES = ("_timestamp", "_runtime")
# Facts about the client, its machine, and its Python process.
OWN = ("_wandb",)
OWN_VARIABLES = ("name", "config", "host", "program", "id")


def without(document, keys):
    return {key: value for key, value in document.items() if key not in keys}


def by_name(metrics):
    """Returns the definitions by name, with step metrics by name, since their order in the list does not matter."""
    names = [m.get("1", m.get("2")) for m in metrics]
    return {
        name: without(m, ("5",)) | ({"step": names[m["5"] - 1]} if "5" in m else {})
        for name, m in zip(names, metrics)
    }


def texts(row):
    """Converts NaN to the form of the fake server's dump."""
    return {
        k: texts(v) if isinstance(v, dict) else "NaN" if v != v else v for k, v in row.items()
    }


def read_back_by_sdk(run_id, environment, home):
    args = [sys.executable, str(HERE / "sdk_read.py"), run_id]
    done = subprocess.run(
        args, env=environment, check=True, timeout=120, cwd=home, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    fake, deliver = sys.argv[1:]
    server = subprocess.Popen(
        [fake, "0", "EXPAND_DEFINED_METRIC_GLOBS"], stdout=subprocess.PIPE, text=True
    )
    try:
        url = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as home:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": home,
                "WANDB_DIR": home,
                "WANDB_BASE_URL": url,
                "WANDB_API_KEY": "0123456789" * 4,
                "NO_PROXY": "127.0.0.1",
            }
            for args in (
                [sys.executable, str(HERE / "sdk_run.py"), "theirs", str(ROWS)],
                [deliver, url, "ours", str(ROWS)],
            ):
                subprocess.run(args, env=environment, check=True, timeout=120, cwd=home)
            read_back = read_back_by_sdk("ours", environment, home)
        dump = json.load(urllib.request.urlopen(url + "/dump"))
    finally:
        server.kill()
        server.wait()

    theirs, ours = dump["runs"]["theirs"], dump["runs"]["ours"]
    checks = {
        "errors that the server noted": ([], dump["errors"]),
        "rows": (ROWS, len(theirs["history"])),
        "history": tuple([without(row, TIMES) for row in run["history"]] for run in (theirs, ours)),
        "keys of a row": tuple([sorted(row) for row in run["history"]] for run in (theirs, ours)),
        "history as the SDK reads it back": (
            [texts(row) for row in read_back["history"]],
            ours["history"],
        ),
        "config as the SDK reads it back": (
            read_back["config"],
            {key: value["value"] for key, value in without(ours["config"], OWN).items()},
        ),
        "summary as the SDK reads it back": (texts(read_back["summary"]), ours["summary"]),
        "config": tuple(
            without(run["config"], OWN + ("rank", "local_rank", "world_size", "node", "ranklog"))
            for run in (theirs, ours)
        ),
        "metrics": tuple(by_name(run["config"]["_wandb"]["value"]["m"]) for run in (theirs, ours)),
        "summary": tuple(without(run["summary"], TIMES + OWN) for run in (theirs, ours)),
        "keys of the summary": tuple(sorted(run["summary"]) for run in (theirs, ours)),
        "run": tuple(without(run["variables"], OWN_VARIABLES) for run in (theirs, ours)),
        "entity and project": tuple((run["entity"], run["project"]) for run in (theirs, ours)),
        "end": tuple((run["complete"], run["exit_code"]) for run in (theirs, ours)),
        "telemetry that makes a run resumable": (True, bool(ours["config"]["_wandb"]["value"]["t"])),
    }
    failed = {name: pair for name, pair in checks.items() if pair[0] != pair[1]}
    for name, (want, got) in failed.items():
        print(f"{name} differ\n  SDK:  {want}\n  ours: {got}")
    print(f"{len(checks) - len(failed)} of {len(checks)} comparisons agree")
    sys.exit(1 if failed else 0)


main()

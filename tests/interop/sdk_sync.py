"""`wandb sync` and `ranklog sync` of the same offline runs of the SDK: the server holds the same.

with_sdk.sh sdk_sync.py FAKE_WANDB RANKLOG
"""

import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import facts
import wandb
from PIL import Image

FEATURES = ("FILESTREAM_GZIP", "EXPAND_DEFINED_METRIC_GLOBS", "STRUCTURED_CONSOLE_LOGS")
KEY = "0123456789" * 4

# Facts that differ, each with its reason.
DIFFERENCES = {
    "config/_wandb/t/*": "the telemetry names the program that uploads",
    "config/_wandb/cli_version": "the same",
    "config/_wandb/python_version": "the same",
    "run/program": "the SDK's sync sends its own program",
}


def start(home, run_id, **init):
    settings = wandb.Settings(x_stats_sampling_interval=0.2, disable_git=True)
    return wandb.init(
        project="sync", entity="fake-team", id=run_id, mode="offline", dir=str(home), settings=settings, **init
    )


def rows(home):
    run = start(home, "rows", name="rows", notes="why", tags=["a", "b"], group="g", job_type="train", config={"lr": 0.1, "opt": {"name": "adam"}})
    for i in range(50):
        run.log({"loss": 1 / (i + 1), "train": {"acc": i / 3, "more": {"x": i}}, "flag": i % 2 == 0, "list": [1, i], "text": f"t {i}", "big": 2**60 + i})
    run.log({"nan": float("nan"), "inf": float("-inf"), "none": None})
    run.config.update({"late": {"a": [1, 2]}})
    run.summary["best"] = 5
    run.summary["nested"] = {"a": {"b": 1}}
    run.finish()


def rich(home):
    run = start(home, "rich")
    run.define_metric("epoch")
    run.define_metric("val/*", step_metric="epoch", summary="min")
    run.define_metric("best", summary="max,mean", hidden=True)
    run.define_metric("train.acc", summary="last")
    run.define_metric("hidden_summary", summary="none")
    print("hello\nprogress 1", end="\rprogress 2\n")
    print("an error", file=sys.stderr)
    for i in range(5):
        run.log({"epoch": i, "val/loss": 5 - i, "best": i, "train": {"acc": i}, "hidden_summary": i})
        time.sleep(0.2)
    run.log({"histogram": wandb.Histogram(np_histogram=([1, 2, 3], [0, 1, 2, 3])), "image": wandb.Image(Image.new("RGB", (4, 4)), caption="c")})
    run.log({"table": wandb.Table(columns=["a"], data=[[1]])})
    run.alert("title", "text", level=wandb.AlertLevel.WARN, wait_duration=30)
    saved = home / "saved.txt"
    saved.write_text("saved\n")
    run.save(str(saved), base_path=str(home))
    data = home / "data.bin"
    data.write_bytes(b"x" * 1000)
    artifact = wandb.Artifact("data", type="dataset", metadata={"rows": 1}, description="what it is")
    artifact.add_file(str(data))
    run.log_artifact(artifact, aliases=["best"])
    run.finish(exit_code=3)


def sync(command, fake, home, *paths):
    """Runs the command on the paths, and returns the server's runs by id."""
    server = subprocess.Popen([fake, "0", *FEATURES], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        # Without the service of this process, which would do the work with its own settings.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
        environment |= {"WANDB_BASE_URL": url, "WANDB_API_KEY": KEY}
        subprocess.run([*command, *map(str, paths)], env=environment, cwd=home, check=True)
        dump = json.load(urllib.request.urlopen(url + "/dump"))
    finally:
        server.kill()
        server.wait()
    return dump["runs"], dump["errors"]


def same_row(one, other):
    """Times are kept to a microsecond."""
    late = abs(one["_timestamp"] - other["_timestamp"])
    return late < 1e-6 and {**one, "_timestamp": 0} == {**other, "_timestamp": 0}


def compare(name, theirs, ours, seen):
    found = []
    for one, other in zip(theirs["history"], ours["history"]):
        if not same_row(one, other):
            found.append(f"row {one['_step']}: the SDK {one}, Ranklog {other}")
    their_facts, our_facts = facts.facts_of(theirs), facts.facts_of(ours)
    for path in sorted(their_facts.keys() | our_facts.keys()):
        one, other = their_facts.get(path, "nothing"), our_facts.get(path, "nothing")
        if one == other:
            continue
        known = [glob for glob in DIFFERENCES if fnmatch.fnmatchcase(path, glob)]
        seen.update(known)
        if not known:
            found.append(f"{path}: the SDK {one!r}, Ranklog {other!r}")
    return [f"{name}: {difference}" for difference in found]


def main():
    fake, ranklog = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        for name in [name for name in os.environ if name.startswith(("WANDB", "RANKLOG"))]:
            del os.environ[name]
        os.environ |= {"HOME": directory, "WANDB_SILENT": "true", "NO_PROXY": "127.0.0.1", "RANKLOG_STATE_DIR": str(home / "state")}
        rows(home)
        rich(home)
        # The SDK removes the files of artifacts, so it comes last.
        copy = home / "copy"
        shutil.copytree(home / "wandb", copy, symlinks=True)
        ours, our_errors = sync([ranklog, "sync"], fake, home, home / "wandb")
        theirs, their_errors = sync([sys.executable, "-m", "wandb", "sync"], fake, home, *sorted(copy.glob("offline-*")))
        markers = sorted(path.name for path in (home / "wandb").glob("offline-*/*.synced"))
    assert markers == ["run-rich.wandb.synced", "run-rows.wandb.synced"], markers
    assert our_errors == their_errors == [], (our_errors, their_errors)
    assert ours.keys() == theirs.keys() == {"rows", "rich"}, (ours.keys(), theirs.keys())
    seen = set()
    found = [line for name in ours for line in compare(name, theirs[name], ours[name], seen)]
    found += [f"{glob} does not differ any more" for glob in DIFFERENCES.keys() - seen]
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()

"""`wandb sync` and `ranklog sync` of the same offline runs of the SDK: the server holds the same.

with_sdk.sh sdk_sync.py FAKE_WANDB RANKLOG [PYTHON]

The SDK of PYTHON makes the runs; by default, the one that uploads them.
"""

import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import facts

HERE = pathlib.Path(__file__).parent
FEATURES = ("FILESTREAM_GZIP", "EXPAND_DEFINED_METRIC_GLOBS", "STRUCTURED_CONSOLE_LOGS")
KEY = "0123456789" * 4

# Facts that differ, each with its reason.
DIFFERENCES = {
    "config/_wandb/t/*": "the telemetry names the program that uploads",
    "config/_wandb/cli_version": "the same",
    "config/_wandb/python_version": "the same",
    "run/program": "the SDK's sync sends its own program",
}
# What arrives only with Ranklog, if an older SDK made the runs.
ONLY_OURS = {
    "config/_wandb/e/*": "facts from the file wandb-metadata.json, for logs without a record of them",
    "files/wandb-metadata.json/writerId": "the same",
    "metrics/*": "definitions that a glob gives, as of an online run",
    "summary/*": "of logs before 0.18, the SDK's sync sends no summary",
    "files/wandb-summary.json/*": "the same",
    "events/*": "of logs before 0.18, the SDK's sync sends no system metrics of short runs",
}


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


def compare(name, theirs, ours, older, seen):
    found = []
    if len(theirs["history"]) != len(ours["history"]):
        found.append(f"{len(theirs['history'])} rows by the SDK, {len(ours['history'])} by Ranklog")
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
        if older and one == "nothing" and any(fnmatch.fnmatchcase(path, glob) for glob in ONLY_OURS):
            continue
        if not known:
            found.append(f"{path}: the SDK {one!r}, Ranklog {other!r}")
    return [f"{name}: {difference}" for difference in found]


def main():
    fake, ranklog = map(os.path.abspath, sys.argv[1:3])
    older = len(sys.argv) > 3
    maker = sys.argv[3] if older else sys.executable
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        for name in [name for name in os.environ if name.startswith(("WANDB", "RANKLOG"))]:
            del os.environ[name]
        os.environ |= {"HOME": directory, "WANDB_SILENT": "true", "NO_PROXY": "127.0.0.1", "RANKLOG_STATE_DIR": str(home / "state")}
        subprocess.run([maker, HERE / "sdk_offline_runs.py", home], check=True)
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
    found = [line for name in ours for line in compare(name, theirs[name], ours[name], older, seen)]
    found += [f"{glob} does not differ any more" for glob in DIFFERENCES.keys() - seen]
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()

"""Compares `ranklog sync` with `wandb sync`, each with a copy of the same offline run and a fake server of its own.

with_sdk.sh ../benchmarks/end_to_end/log_sync.py FAKE_WANDB RANKLOG ROWS

Prints one line of JSON: for each program the elapsed time, the CPU time and the peak memory of all of its processes.
"""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import wandb

SAMPLE = 0.02  # seconds between two looks at the memory


def resident_mib(pid):
    """Of a process and its descendants."""
    kib = 0
    pids = [pid]
    for pid in pids:
        try:
            for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                kib += int(line.split()[1]) if line.startswith("VmRSS") else 0
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                pids += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass  # it has ended
    return kib / 1024


def measure(command, environment):
    def watch():
        while not done.wait(SAMPLE):
            figures["peak_mib"] = max(figures["peak_mib"], resident_mib(process.pid))

    figures = {"peak_mib": 0}
    done = threading.Event()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watcher = threading.Thread(target=watch)
    watcher.start()
    output = process.communicate()[0]
    figures["elapsed_s"] = time.monotonic() - begin
    done.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures["cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert process.returncode == 0, output
    return figures


def main():
    fake_wandb, ranklog, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for name in [name for name in os.environ if name.startswith(("WANDB", "RANKLOG"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(dir=".") as home:
        os.environ |= {"HOME": home, "WANDB_DIR": home, "WANDB_API_KEY": "0123456789" * 4, "WANDB_SILENT": "true", "NO_PROXY": "127.0.0.1"}
        run = wandb.init(project="p", id="run", mode="offline")
        directory = pathlib.Path(run.dir).parent
        for row in range(rows):
            run.log({f"metric/{i}": 0.1 * row + i / 3 for i in range(10)}, step=row)
        run.finish()

        results = {}
        for name in ("wandb", "ranklog"):
            copy = pathlib.Path(home, f"copy-{name}", directory.name)
            shutil.copytree(directory, copy)
            server = subprocess.Popen([fake_wandb, "0"], stdout=subprocess.PIPE, text=True)
            url = server.stdout.readline().strip()
            program = [ranklog, "--state-dir", f"{home}/state"] if name == "ranklog" else [sys.executable, "-m", "wandb"]
            try:
                results[name] = measure([*program, "sync", str(copy)], os.environ | {"WANDB_BASE_URL": url})
            finally:
                server.kill()
                server.wait()
        print(json.dumps(results))


main()

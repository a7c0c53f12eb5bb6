#!/usr/bin/python3
"""What the Python package costs, beside W&B's in the same run. benchmarks/run.py calls this like a Google Benchmark.

Each figure is measured in a process of its own. The build links this file to build/release/benchmarks/python_benchmark.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(__file__).absolute().parent.parent
WANDB_PYTHON = pathlib.Path(__file__).resolve().parents[2] / "interop" / "wandb_python.sh"
SHORT = "RANKLOG_BENCHMARK_SHORT" in os.environ
PYTHON = "/usr/bin/python3"

# Both packages log ten floats by these loops, and rest now and then, as a training does: so no spool and no pipe is full.
LOG = """
import json, sys, time
import {package} as package
run = package.init(project="benchmark")
names = [f"train/metric{{i}}" for i in range(10)]
values = [i + 0.5 for i in range(10)]
clock = time.perf_counter_ns
times = []
for step in range({calls}):
    row = {row}
    begin = clock()
    run.log(row)
    times.append(clock() - begin)
    if step % {burst} == 0:
        time.sleep(0.002)
times = sorted(times[len(times) // 10:])
run.finish()
print(json.dumps({{"p50_us": times[len(times) // 2] / 1e3, "p999_us": times[len(times) * 999 // 1000] / 1e3}}))
"""
LITERALS = "dict(zip(names, values))"
MADE_ANEW = "{f'train/metric{i}': values[i] for i in range(10)}"
START = """
import json, time
begin = time.process_time()
import {package} as package
import_cpu_ms = (time.process_time() - begin) * 1e3
imported = time.perf_counter()
run = package.init(project="benchmark")
opened = time.perf_counter()
print(json.dumps({{"import_cpu_ms": import_cpu_ms, "init_ms": (opened - imported) * 1e3}}), flush=True)
run.finish()
"""


class Node:
    """Directories of its own; the first run starts the daemon."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="rl-")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "RANKLOG_"))},
            "PYTHONPATH": str(BUILD / "python"),
            "HOME": self.dir,
            "RANKLOG_ADDRESS": f"unix:{self.dir}/d.sock",
            "RANKLOG_STATE_DIR": f"{self.dir}/state",
            "RANKLOG_DAEMON": str(BUILD / "bin" / "ranklogd"),
            "RANKLOG_DESTINATIONS": "local",
            "RANKLOG_QUIET": "1",
            "WANDB_MODE": "offline",
            "WANDB_SILENT": "true",
            "WANDB_DIR": self.dir,
        }
        return self

    def __exit__(self, *_):
        subprocess.run([BUILD / "bin" / "ranklog", "stop"], env=self.environment, capture_output=True, timeout=60)
        shutil.rmtree(self.dir, ignore_errors=True)

    def measure(self, python, script):
        done = subprocess.run([python, "-c", script], env=self.environment, capture_output=True, text=True, timeout=600, cwd=self.dir)
        if done.returncode != 0:
            raise RuntimeError(f"a measured program ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


def wandb_python():
    """None: W&B's package is absent."""
    done = subprocess.run([WANDB_PYTHON], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def log(row, goal_p50):
    with Node() as node:
        calls = 2000 if SHORT else 100_000
        ours = node.measure(PYTHON, LOG.format(package="ranklog", calls=calls, burst=500, row=row))
        result = {**ours, "at_most p50_us": goal_p50, "at_most p999_us": 10}
        theirs = wandb_python()
        if theirs is not None:
            sdk = node.measure(theirs, LOG.format(package="wandb", calls=200 if SHORT else 5000, burst=20, row=row))
            result.update(wandb_p50_us=sdk["p50_us"], wandb_p999_us=sdk["p999_us"])
        return result


def start():
    with Node() as node:
        node.measure(PYTHON, START.format(package="ranklog"))  # starts the daemon, and compiles the package
        ours = [node.measure(PYTHON, START.format(package="ranklog")) for _ in range(1 if SHORT else 15)]
        result = {name: statistics.median(run[name] for run in ours) for name in ours[0]}
        result.update({"at_most import_cpu_ms": 50, "at_most init_ms": 20})
        theirs = wandb_python()
        if theirs is not None and not SHORT:
            sdk = node.measure(theirs, START.format(package="wandb"))
            result.update(wandb_import_cpu_ms=sdk["import_cpu_ms"], wandb_init_ms=sdk["init_ms"])
        return result


BENCHMARKS = {
    "BM_PythonLogTen": lambda: log(LITERALS, 0.5),
    "BM_PythonLogTenMadeKeys": lambda: log(MADE_ANEW, 1.5),
    "BM_PythonStart": start,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--benchmark_list_tests", action="store_true")
    parser.add_argument("--benchmark_filter", default="")
    parser.add_argument("--benchmark_out", type=pathlib.Path)
    options, _ = parser.parse_known_args()
    pattern = options.benchmark_filter
    negative = pattern.startswith("-")
    names = [name for name in BENCHMARKS if (re.search(pattern.lstrip("-"), name) is None) == negative or not pattern]
    if not names:
        sys.exit(f"Failed to match any benchmarks against regex: {pattern}")
    if options.benchmark_list_tests:
        print("\n".join(names))
        return
    results = []
    for name in names:
        begin = time.perf_counter()
        figures = BENCHMARKS[name]()
        seconds = time.perf_counter() - begin
        results.append({"name": name, "real_time": seconds, "cpu_time": seconds, "iterations": 1, **figures})
        print(name, {figure: round(value, 3) for figure, value in figures.items()}, flush=True)
    if options.benchmark_out:
        options.benchmark_out.write_text(json.dumps({"benchmarks": results}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the benchmarks of a build and judges their figures. See --help."""

import argparse
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import figures  # noqa: E402

# A figure that misses its goal is measured again, since a machine may be busy for a moment. Three misses are no
# accident.
RUNS = 3

# A program that takes longer hangs.
LIMIT = 1800  # seconds

# The figures with a goal, by benchmark. It is a failure if a benchmark does not report one of them, or reports one that
# is not listed.
FIGURES = {
    "ClientToStoreSaturated": {"million_values_per_s"},
    "FinishWithSilentTracker": {"ms"},
    "HistoryLines": {"ratio"},
    "IdleDaemon": {"percent_of_core", "rss_mib"},
    "InitRepeatedly": {"slowest_ms"},
    "InitWithDaemon": {"slowest_ms"},
    "InitWithSilentTracker": {"slowest_ms"},
    "InitWithoutDaemon": {"slowest_ms"},
    "LogPacedP999": {"us"},
    "LogTenByRow": {"ratio"},
    "LogTenHandles": {"ratio"},
    "LogTenKeys": {"ratio"},
    "LogThousandByRow": {"ratio"},
    "LogThousandHandles": {"ratio"},
    "LogThousandKeys": {"ratio"},
    "FormatRows": {"ratio"},
    "PythonLogTen": {"p50_us", "p999_us"},
    "PythonLogTenMadeKeys": {"p50_us", "p999_us"},
    "PythonStart": {"import_cpu_ms", "init_ms"},
    "SampleTick": {"percent_of_core"},
    "SteadyLoadCpu": {"daemon_rss_mib", "percent_of_core"},
    "SummaryCalls": {"ms"},
    "StoreFloodAll": {"bytes_per_value"},
    "StoreFloodMain": {"bytes_per_value"},
    "JoinedNodes/8/1": {"percent_of_core", "rss_mib", "slowest_s"},
    "JoinedNodes/128/1": {"percent_of_core", "rss_mib", "slowest_s"},
    "JoinedNodes/1023/1": {"percent_of_core", "rss_mib", "slowest_s"},
    "JoinedNodes/255/8": {"percent_of_core", "rss_mib", "slowest_s"},
    "JoinedNodes/128/8": {"percent_of_core", "rss_mib", "slowest_s"},
    "LogSyncVersusWandb": {"cpu_ratio", "elapsed_ratio", "memory_ratio"},
    "LoggingOverhead": {"cpu_percent", "step_percent"},
    "TrainMemory/small": {"ratio"},
    "TrainMemory/tiny": {"ratio"},
    "TrainVersusPython/small": {"ratio"},
    "TrainVersusPython/tiny": {"ratio"},
    "TrainTwoRanks/small": {"of_bound"},
    "TrainTwoRanks/tiny": {"of_bound"},
}

# Known misses: the measured figure, and why it stays so. Remove a line as soon as the goal is met.
KNOWN_MISSES = {
    "LogPacedP999 us": (5.0, "no page fault and no system call: after half a millisecond of other work, its data is in no cache of a small virtual machine"),
    "SteadyLoadCpu percent_of_core": (8.4, "depends on the machine: 3.5 % on one of two cores, 6.3 to 8.4 % on another, where earlier versions take as much"),
    "LogSyncVersusWandb cpu_ratio": (16, "0.6 s for a million values; the checksums, the JSON of the values and the store's rows share it"),
    "LogSyncVersusWandb elapsed_ratio": (5.7, "the fake server parses the rows for 1.6 s of the 2 s"),
    "LogThousandKeys ratio": (5.1, "each key is compared with that of the last row; the reference reads only the values"),
    "TrainTwoRanks/small of_bound": (0.94, "DDP takes 5 % more CPU time than two ranks alone, and both cores compute already; PyTorch's own loop is as fast"),
}

EPILOG = """A figure is a miss if it misses its goal in three runs of three. Exit code 1 for a miss, or if a benchmark fails,
hangs, prints nothing, or reports other figures than listed (FIGURES in this file). Known misses (KNOWN_MISSES) are printed
with the recorded figure, and count only if they are worse than it by a factor of two.

Examples:
  tests/benchmarks/run.py build/release
  tests/benchmarks/run.py --filter 'Log|Init' build/release
  tests/benchmarks/run.py --short build/release      # only checks that they run: some seconds each, without goals
  tests/benchmarks/run.py --json build/release >figures.json
"""


class Failed(Exception):
    pass


def short_name(name):
    """BM_ReadBatches/rows:16/real_time -> ReadBatches/rows:16"""
    return re.sub(r"/(iterations:\d+|(real|manual|process)_time)", "", name).removeprefix("BM_")


def absent(result):
    """Whether this machine lacks a part that the benchmark needs. If CI is set, that is a failure."""
    return result.get("error_message", "").startswith("absent: ") and "CI" not in os.environ


def run(program, options, filter_):
    """Returns the results of one program by name. Each listed benchmark must have one."""
    if options.short and not filter_:
        filter_ = "-/small$|-/small/"  # the trainer's benchmarks have the model `tiny`, too, which runs the same code
    select = [f"--benchmark_filter={filter_}"] if filter_ else []
    out = pathlib.Path("results.json").absolute()
    out.unlink(missing_ok=True)
    environment = dict(os.environ)
    if options.short:
        environment["RANKLOG_BENCHMARK_SHORT"] = "1"
        select.append("--benchmark_min_time=0.01")
    listed = subprocess.run([program, "--benchmark_list_tests", *select], capture_output=True, text=True, env=environment)
    names = listed.stdout.split()
    if "Failed to match" in listed.stdout + listed.stderr:
        return {}
    if listed.returncode != 0 or not names:
        raise Failed(f"{program.name} lists no benchmarks, and ended with code {listed.returncode}")
    # The program's own table goes to stderr, since stdout is for ours. A short run shows it only if the program fails. It is not a
    # pipe, because a process that the program left behind would hold it open.
    with tempfile.TemporaryFile("w+") as table:
        done = subprocess.run([program, f"--benchmark_out={out}", "--benchmark_out_format=json", *select], env=environment,
                              stdout=table if options.short else sys.stderr, stderr=subprocess.STDOUT if options.short else None, timeout=LIMIT)
        table.seek(0)
        if done.returncode != 0:
            raise Failed(f"{program.name} ended with code {done.returncode}\n{table.read()}".rstrip())
    results = {result["name"]: result for result in json.loads(out.read_text())["benchmarks"]}
    for name in names:
        result = results.get(name)
        if result is None:
            raise Failed(f"{program.name} printed nothing for {name}")
        if absent(result):
            print(f"{short_name(name)} is skipped: {result['error_message']}", file=sys.stderr)
            continue
        if result.get("error_occurred"):
            raise Failed(f"{name}: {result['error_message']}")
        if not result["real_time"] > 0:
            raise Failed(f"{name} took no time")
    return results


def stated_goals(result):
    """Returns the kind of goal and the goal by unit, as reported through tests/benchmarks/figures.h."""
    keys = ((key.partition(" "), goal) for key, goal in result.items())
    return {unit: (kind, goal) for (kind, _, unit), goal in keys if kind in ("at_most", "at_least")}


def words(units):
    return ", ".join(sorted(units)) or "none"


def goals(result):
    for unit, (kind, goal) in stated_goals(result).items():
        yield figures.Figure(f"{short_name(result['name'])} {unit}", result[unit], "", runs=[result[unit]], **{kind: goal})


def beside(result):
    """Returns the counters that are not figures."""
    standard = {"family_index", "per_family_instance_index", "repetitions", "threads", "repetition_index", "iterations", "real_time",
                "cpu_time"}
    return ", ".join(f"{key} {value:.3g}" for key, value in result.items() if key not in standard and type(value) in (int, float) and
                     not key.startswith(("at_most ", "at_least ")) and f"at_most {key}" not in result and f"at_least {key}" not in result)


def judge(program, results, options):
    """Judges the figures of a program. Measures those that missed their goal again, alone."""
    judged = {}
    for name, result in results.items():
        if absent(result):
            continue
        stated, listed = set(stated_goals(result)), FIGURES.get(short_name(name), set())
        if stated != listed:
            raise Failed(f"{short_name(name)} states {words(stated)}; FIGURES in run.py lists {words(listed)}")
        for figure in goals(result):
            figure.on_record, why = KNOWN_MISSES.get(figure.name, (None, ""))
            figure.note = "; ".join(filter(None, (why, beside(result))))
            judged[figure.name] = figure
            if not math.isfinite(figure.value):
                raise Failed(f"{figure.name} is {figure.value}")
    if options.short:
        return judged
    for _ in range(RUNS - 1):
        again = [name for name, result in results.items() if any(judged[figure.name].failed for figure in goals(result))]
        if not again:
            break
        print(f"-- again, for a goal was missed: {', '.join(map(short_name, again))}", file=sys.stderr)
        for result in run(program, options, "^(" + "|".join(map(re.escape, again)) + ")$").values():
            for figure in goals(result):
                seen = judged[figure.name]
                seen.runs.append(figure.value)
                if seen.failed:
                    seen.value, seen.note = figure.value, beside(result)
    return judged


def main():
    parser = argparse.ArgumentParser(description="Runs the benchmarks of a build and judges their figures.", epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build directory, e.g. build/release, which tests/run.sh makes")
    parser.add_argument("--short", action="store_true", help="run each as briefly as possible, without goals and without a table")
    parser.add_argument("--filter", metavar="REGEX", help="run only the benchmarks whose names match")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()

    if options.short and options.json:
        parser.error("--short prints no table, so --json does not go with it")
    if not options.build.is_dir():
        parser.error(f"{options.build} is not a directory; `tests/run.sh --fast` builds build/release")
    for ending in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(ending) != signal.SIG_IGN:  # as under nohup
            signal.signal(ending, lambda *_: sys.exit(1))  # ends the benchmark, too
    programs = sorted((options.build / "benchmarks").resolve().glob("*_benchmark"))
    if not programs:
        parser.exit(1, f"no benchmarks in {options.build}: build it with -DRANKLOG_BENCHMARKS=ON\n")
    # Files of the benchmarks are on the build's disk, since a flush in tmpfs costs nothing.
    scratch = options.build / "benchmarks" / "results"
    scratch.mkdir(exist_ok=True)
    os.chdir(scratch)

    load = os.getloadavg()[0]
    if load > 1 and not options.short:
        print(f"the machine is busy (load {load:.1f} on {os.cpu_count()} cores): times are longer than they would be alone", file=sys.stderr)
    judged, failed, ran = {}, [], set()
    for program in programs:
        print(f"== {program.name} ({time.strftime('%T')})", file=sys.stderr, flush=True)
        try:
            results = run(program, options, options.filter)
            ran.update(map(short_name, results))
            judged.update(judge(program, results, options))
        # OSError, ValueError: from reading its output
        except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as failure:
            failed.append(str(failure))
            print(f"FAILED: {failure}", file=sys.stderr)

    if not ran and not failed:
        failed.append(f"no benchmark fits --filter {options.filter}")
    elif options.short:
        print(f"{len(programs)} programs, {len(ran)} benchmarks ran; {len(judged)} figures, not judged")
    else:
        print(figures.as_json(judged.values()) if options.json else figures.text(judged.values()))
        missed = [figure.name for figure in judged.values() if figure.failed]
        if missed:
            failed.append(f"missed in {RUNS} runs of {RUNS}: {', '.join(missed)}")
        for name, figure in judged.items():
            if figure.on_record is not None and figure.met:
                print(f"{name} meets its goal: if it does so on an idle machine, take it from KNOWN_MISSES", file=sys.stderr)
        for name in KNOWN_MISSES.keys() - judged.keys():
            if not options.filter:
                failed.append(f"KNOWN_MISSES names {name}, which no benchmark has")
    if not options.filter and not failed and FIGURES.keys() - ran:
        failed.append(f"FIGURES lists benchmarks that did not run: {words(FIGURES.keys() - ran)}")
    for failure in failed:
        print(f"FAILED: {failure.splitlines()[0]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

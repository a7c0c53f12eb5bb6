#!/usr/bin/env python3
"""Runs the long trials and judges their figures. See --help."""

import argparse
import array
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCES = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCES / "tests" / "support"))
import figures  # noqa: E402

EPILOG = """Trials:
  simulation      the simulator for MINUTES on each core, with seeds that were not run before
  planted_bugs    the simulator finds each known bug, by 2000 seeds that were not run before
  model           random jobs through the real programs for MINUTES, with seeds that were not run before
  interleaving    the client's threads in the orders of their accesses, with one more free switch
  kill_rank       1000 ranks are killed
  stopped_daemon  the daemon is stopped for 30 s
  many_rows       a backlog of 10^7 rows; 64 ranks at one daemon, of 64 jobs and of one
  many_runs       a store with 10,000 runs
  two_nodes       two nodes train while links are cut: to the W&B server for 30 s, between the nodes for 5 s; a node fails
  killed_training two trainings are killed 20 times each, in their steps and in their starts
  fuzz            the fuzz targets, side by side, for MINUTES
  clang_tidy      clang-tidy of all files
  systems         the packages on bare systems of Debian 11, 12 and 13, downloaded by debootstrap
  gpt2            GPT-2 with 124 million parameters trains, stops, and resumes; takes 3 GB of memory, and 3 GB of the disk of BUILD
  gpu_build       the trainer with CUDA and NCCL, against PyTorch's wheels; trains where there are GPUs

In addition to three times MINUTES, they take about 40 minutes on two cores, with the builds of the fuzz targets, for clang-tidy and for
the packages. The output of a trial goes to BUILD/soak/TRIAL.log. Exit code 1 if a figure misses its goal or a trial fails.

Examples:
  tests/soak.py build/release 10
  tests/soak.py build/release 60 --only simulation
  tests/soak.py build/release 1 --only many_rows --only many_runs
  tests/soak.py build/release 10 --json >figures.json
"""

# A trial that takes longer hangs: the tests take up to 4 minutes on two busy cores, a cold build of the fuzz targets 20.
LIMIT = 7200  # seconds


def say(text):
    print(f"{time.strftime('%T')} {text}", file=sys.stderr, flush=True)


class Soak:
    def __init__(self, build, minutes):
        self.build = build
        self.minutes = minutes
        self.logs = build / "soak"
        self.logs.mkdir(exist_ok=True)

    def run(self, name, commands, limit, environment=None):
        """Runs `commands` side by side, each with its own log. Returns the exit code and the log of each."""
        started = time.time()
        logs = [self.logs / (f"{name}.log" if len(commands) == 1 else f"{name}.{i}.log") for i in range(len(commands))]
        processes = []
        for command, log in zip(commands, logs):
            with open(log, "w") as out:
                processes.append(subprocess.Popen(command, cwd=SOURCES, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                                  env={**os.environ, **(environment or {})}, start_new_session=True))
        told = started
        try:
            while any(process.poll() is None for process in processes):
                time.sleep(0.2)
                if time.time() - told >= 60:
                    told = time.time()
                    say(f"   {name} runs since {(told - started) / 60:.0f} min")
                if time.time() - started > limit:
                    say(f"   {name} hangs and is killed")
                    break
        finally:  # also by Ctrl-C
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return [(process.returncode, log) for process, log in zip(processes, logs)]

    def entries(self, name):
        """Returns the ctest entries NAME, or NAME_1 and so on. ctest does not run them, because its time limit is for the short form."""
        shown = subprocess.run(["ctest", "--test-dir", self.build, "-R", f"^{name}(_[0-9]+)?$", "--show-only=json-v1"], capture_output=True, text=True)
        entries = json.loads(shown.stdout)["tests"] if shown.returncode == 0 else []
        if not entries or not all(entry.get("command") and os.access(entry["command"][0], os.X_OK) for entry in entries):
            raise FileNotFoundError(f"{name} is not built in {self.build}")
        return entries

    def test(self, name):
        """Returns the command and the environment for all tests of an entry, even if ctest has them in parts."""
        first = self.entries(name)[0]
        properties = {entry["name"]: entry["value"] for entry in first.get("properties", [])}
        return first["command"], dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []) if not entry.startswith("GTEST_"))

    # ---- The trials: each returns its figures, and adds its failures to `failures`. ----

    def long_test(self, trial, failures):
        command, environment = self.test(f"{trial}_test")
        reported = self.logs / f"{trial}.figures"
        reported.unlink(missing_ok=True)
        environment |= {"RANKLOG_SOAK": "1", "GTEST_ALSO_RUN_DISABLED_TESTS": "1", "RANKLOG_FIGURES": str(reported)}
        if trial == "stopped_daemon":
            environment["TMPDIR"] = "/dev/shm"  # where spools are by default; in a file, the disk's writes are measured as well
        [(code, log)] = self.run(trial, [command], LIMIT, environment)
        said = log.read_text(errors="replace")
        if code != 0:
            failures.append((f"ended with code {code}", log))
        elif "[  PASSED  ]" not in said or "[  SKIPPED ]" in said:
            failures.append(("did not run all of its tests", log))
        lines = reported.read_text().splitlines() if reported.exists() else []
        if not lines:
            failures.append(("reported no figure", log))
        return [figures.Figure(**{"value": float("nan"), **json.loads(line)}) for line in lines]

    def simulation(self, trial, failures):
        program = self.test("simulation_1")[0][0]
        # Each second has 10^9 seeds of its own, and each core 10^8 of these.
        first = [f"{int(time.time()) * 1000000 + core * 100000}000" for core in range(os.cpu_count())]
        runs = self.run(trial, [[program, "--minutes", str(self.minutes), "--first-seed", seed, "--json"] for seed in first],
                        self.minutes * 60 + LIMIT)
        seeds, failed = 0, []
        for code, log in runs:
            try:
                summary = json.loads(log.read_text().splitlines()[-1])
            except (ValueError, IndexError):
                failures.append((f"ended with code {code}, without a summary", log))
                continue
            seeds += summary["seeds"]
            failed += summary["failed_seeds"]
            if code != 0:
                failures.append((f"ended with code {code}", log))
        return [figures.Figure("seeds", seeds, "", at_least=1),  # else nothing was tried
                figures.Figure("failed seeds", len(failed), "", at_most=0, note=", ".join(map(str, failed[:10])))]

    def planted_bugs(self, trial, failures):
        commands = [entry["command"] for entry in self.entries("simulation_finds_planted_bugs")]
        bugs = [bug.partition("=")[0] for _, *parts in commands for bug in parts]
        first = f"{int(time.time())}000"
        runs = self.run(trial, [[program, "--search", first, *parts] for program, *parts in commands], LIMIT)
        lines = [line for _, log in runs for line in log.read_text().splitlines()]
        found = {line.split()[0] for line in lines if " seed " in line}
        rare = [line.split()[0] for line in lines if line.endswith("is too rare for a search")]
        missing = [bug for bug in bugs if bug not in found and bug not in rare]
        failures += [(f"ended with code {code}", log) for code, log in runs if code != 0]
        return [figures.Figure("bugs", len(bugs) - len(rare), "", at_least=1, note=f"too rare: {', '.join(rare)}" if rare else ""),
                figures.Figure("bugs not found", len(missing), "", at_most=0, note=", ".join(missing))]

    def model(self, trial, failures):
        first = f"{int(time.time())}000"
        [(code, log)] = self.run(trial, [["tests/model/run.py", str(self.build), "--minutes", str(self.minutes), "--first-seed", first,
                                          "--jobs", str(2 * os.cpu_count()), "--json"]], self.minutes * 60 + LIMIT)
        try:
            summary = json.loads(log.read_text().splitlines()[-1])
        except (ValueError, IndexError):
            failures.append((f"ended with code {code}, without a summary", log))
            return []
        if code != 0:
            failures.append((f"ended with code {code}", log))
        failed = summary["failed_seeds"]
        return [figures.Figure("jobs", summary["seeds"], "", at_least=1),
                figures.Figure("failed jobs", len(failed), "", at_most=0, note=", ".join(map(str, failed[:10])))]

    def fuzz(self, trial, failures):
        targets = [path.name.removesuffix("_fuzz.cc") for path in (SOURCES / "tests" / "fuzz").glob("*_fuzz.cc")]
        seconds = max(1, int(self.minutes * 60))
        [(code, log)] = self.run(trial, [["tests/fuzz/run.sh", str(seconds)]], self.minutes * 60 + LIMIT)
        # A line for each: target, executions, executions per second, corpus, result.
        results = [line.split() for line in log.read_text().splitlines()]
        results = [fields for fields in results if len(fields) >= 2 and fields[0] in targets and fields[-1] in ("ok", "FAILED")]
        failed = [fields[0] for fields in results if fields[-1] == "FAILED"]
        if code != 0:
            failures.append((f"ended with code {code}", log))
        return [figures.Figure("targets", len(results), "", at_least=len(targets), note=f"{seconds} s each"),
                figures.Figure("executions", sum(int(fields[1]) for fields in results if fields[1].isdigit()), ""),
                figures.Figure("failed targets", len(failed), "", at_most=0, note=", ".join(failed))]

    def clang_tidy(self, trial, failures):
        [(code, log)] = self.run(trial, [["tests/checks.sh", "--clang", "--all"]], LIMIT)
        if code != 0:
            failures.append((f"ended with code {code}", log))
        return []

    def systems(self, trial, failures):
        with tempfile.TemporaryDirectory(dir=self.logs) as directory:
            [(code, log)] = self.run(trial, [["deploy/release.sh", "--draft", "--no-install", "--output", directory]], LIMIT)
        if code != 0:
            failures.append((f"ended with code {code}", log))
        return []

    def gpt2(self, trial, failures):
        train = self.build / "bin" / "ranklog-train"
        if not train.exists():
            raise FileNotFoundError(f"{train} is not built")
        with tempfile.TemporaryDirectory(dir=self.logs) as directory:
            tokens = pathlib.Path(directory, "tokens.bin")  # of GPT-2, so that the vocabulary is complete
            tokens.write_bytes(array.array("H", (i * i % 50257 for i in range(4096))).tobytes())
            command = [train, "--data", tokens, "--model", "gpt2", "--batch-size", "1", "--seq-len", "64", "--val-every", "0",
                       "--save-dir", directory, "--experiment-name", "gpt2", "--keep", "1", "--resume"]
            for log, steps, text in ((f"{trial}.start", 2, "step 2/2"), (trial, 3, "resuming after step 2")):
                [(code, log)] = self.run(log, [[*command, "--steps", str(steps)]], LIMIT, {"WANDB_MODE": "disabled"})
                if code != 0:
                    failures.append((f"ended with code {code}", log))
                elif text not in log.read_text(errors="replace"):
                    failures.append((f"did not print '{text}'", log))
            saved = pathlib.Path(directory, "gpt2", "checkpoint-00000003.safetensors")
            size = saved.stat().st_size if saved.exists() else 0
        # The weights and AdamW's two moments, of four bytes each.
        return [figures.Figure("parameters in the checkpoint", size / 12e6, "million", at_least=124.4)]

    def gpu_build(self, trial, failures):
        [(code, log)] = self.run(trial, [["tests/gpu_build.sh"]], LIMIT)
        if code != 0:
            failures.append((f"ended with code {code}", log))
        return []


TRIALS = {"simulation": Soak.simulation, "planted_bugs": Soak.planted_bugs, "model": Soak.model, "interleaving": Soak.long_test,
          "kill_rank": Soak.long_test, "stopped_daemon": Soak.long_test, "many_rows": Soak.long_test, "many_runs": Soak.long_test,
          "two_nodes": Soak.long_test, "killed_training": Soak.long_test,
          "fuzz": Soak.fuzz, "clang_tidy": Soak.clang_tidy, "systems": Soak.systems, "gpt2": Soak.gpt2, "gpu_build": Soak.gpu_build}


def main():
    parser = argparse.ArgumentParser(description="Runs the long trials of a Release build and judges their figures.", epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build directory, e.g. build/release, which tests/run.sh makes")
    parser.add_argument("minutes", type=float, help="for the simulator on each core, for the model, and for the fuzz targets together")
    parser.add_argument("--only", action="append", choices=TRIALS, metavar="TRIAL", help="run this one; may be given again")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()
    if not 0 < options.minutes < math.inf:
        parser.error("MINUTES must be a positive number")
    if not options.build.is_dir():
        parser.error(f"{options.build} is not a directory; `tests/run.sh --fast` builds build/release")

    for ending in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(ending) != signal.SIG_IGN:  # as under nohup
            signal.signal(ending, lambda *_: sys.exit(1))  # what was started ends with us
    soak = Soak(options.build.resolve(), options.minutes)
    table, broken = [], []
    for trial, run in TRIALS.items():
        if options.only and trial not in options.only:
            continue
        say(f"== {trial}")
        started, failures = time.time(), []
        try:
            measured = run(soak, trial, failures)
        except (OSError, ValueError) as error:  # it is not built, or wrote what cannot be read
            measured, failures = [], [(str(error), None)]
        for figure in measured:
            figure.name = f"{trial}: {figure.name}"
            if figure.failed:
                say(f"   MISSED {figure.name}: {figures.number(figure.value)} {figure.unit} (goal {figure.goal})")
        seconds = time.time() - started
        table += [*measured, figures.Figure(f"{trial}: failures", len(failures), "", at_most=0, note=f"{seconds / 60:.1f} min")]
        for what, log in failures:
            say(f"   FAILED: {what}")
            broken.append(trial)
            if log is not None:
                print(*log.read_text(errors="replace").splitlines()[-40:], sep="\n", file=sys.stderr)
                say(f"   all of it: {log}")
    print(figures.as_json(table) if options.json else figures.text(table))
    missed = [figure.name for figure in table if figure.failed]
    say("all goals are met" if not missed else f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

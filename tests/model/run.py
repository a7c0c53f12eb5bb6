#!/usr/bin/env python3
"""Plays random jobs through the real programs, and compares the results with a model of the documents. See --help."""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import job  # noqa: E402
import judge  # noqa: E402
import play  # noqa: E402

EPILOG = """A seed that fails prints itself and every difference; --seed S --acts also prints what the ranks did, and --keep leaves the store.

Examples:
  tests/model/run.py build/release --seeds 40
  tests/model/run.py build/release --seed 17 --acts
  tests/model/run.py build/release --minutes 10 --first-seed 1000000 --json"""

AT_ONCE = 4  # most of a job's time is spent waiting: for commits, and for the daemon's rounds
PRINTED = 10  # failed seeds in full

Programs = collections.namedtuple("Programs", "ranklogd ranklog model_rank")


def text_of(act):
    who = f"rank {act['rank']}" if "rank" in act else f"node {act['node']}" if "node" in act else ""
    who += f" child {act['child']}" if "child" in act else ""
    who += f" thread {act['thread']}" if "thread" in act else ""
    rest = {name: value for name, value in act.items() if name not in ("rank", "node", "child", "thread", "op")}
    return f"{who:24} {act['op']} {json.dumps(rest) if rest else ''}".rstrip()


def head_of(made):
    return (f"{made['ranks']} ranks on {made['nodes']} nodes, strategy {made['strategy']}, statistics "
            f"{';'.join(made['statistics']) or 'default'}, {len(made['acts'])} acts")


def wrong_with(seed, programs, keep):
    """Returns the differences of a seed."""
    made = job.make(seed)
    with tempfile.TemporaryDirectory(prefix=f"ranklog-model-{seed}-") as folder:
        try:
            answers, results = play.play(programs, made, folder)
            wrong = judge.Judge(made, answers, results).wrong
        except play.Failure as failure:
            wrong = [str(failure)]
        except (subprocess.SubprocessError, OSError, ValueError, KeyError):
            wrong = [traceback.format_exc()]
        if keep is not None:
            subprocess.run(["cp", "-a", folder, keep], check=True)
        return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build directory")
    parser.add_argument("--seed", type=int, help="play only this seed")
    parser.add_argument("--seeds", type=int, default=40, help="number of seeds; default 40")
    parser.add_argument("--minutes", type=float, help="play as many seeds as fit into this time")
    parser.add_argument("--first-seed", type=int, default=1, help="the first seed; default 1")
    parser.add_argument("--jobs", type=int, default=AT_ONCE, help="number of jobs at once; default %(default)s")
    parser.add_argument("--acts", action="store_true", help="print what the ranks did")
    parser.add_argument("--keep", type=pathlib.Path, help="with --seed: copy the seed's folder to this path")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON at the end")
    options = parser.parse_args()
    build = options.build.resolve()
    programs = Programs(build / "bin" / "ranklogd", build / "bin" / "ranklog", build / "tests" / "model_rank")
    for program in programs:
        if not program.exists():
            parser.error(f"there is no {program}")

    if options.seed is not None:
        seeds = iter([options.seed])
    else:
        seeds = iter(range(options.first_seed, options.first_seed + (options.seeds if options.minutes is None else 10**9)))
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    done, failed = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {}
        while True:
            while len(running) < options.jobs and time.monotonic() < deadline and (seed := next(seeds, None)) is not None:
                running[pool.submit(wrong_with, seed, programs, options.keep)] = seed
            if not running:
                break
            finished, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in finished:
                seed = running.pop(future)
                done += 1
                wrong = future.result()
                if wrong:
                    failed.append(seed)
                if wrong and len(failed) <= PRINTED or options.acts:
                    made = job.make(seed)
                    print(f"seed {seed}: {head_of(made)}")
                    if options.acts:
                        print(*(f"  {number:4} {text_of(act)}" for number, act in enumerate(made["acts"])), sep="\n")
                    print(*(f"  WRONG {line}" for line in wrong), sep="\n", flush=True)
    if failed:
        print(f"failed seeds: {' '.join(map(str, sorted(failed)))}\nagain: tests/model/run.py {options.build} --seed {min(failed)} --acts")
    print(json.dumps({"seeds": done, "failed_seeds": sorted(failed)}) if options.json else f"{done} seeds, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures the local page in Chromium, and fails if a figure misses its goal. Takes about two minutes.

page_benchmark.py BUILD_DIR [--steps N] [--metrics N]
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "service/ui"))
import page_fixture  # noqa: E402
from browser import Browser  # noqa: E402

PAINT = """
    const chart = () => document.querySelector('[data-title="train/loss"]')?.chart?.plot;
    while (!chart()) await new Promise((f) => setTimeout(f, 5));
    const first = performance.now();
    while (document.querySelector('.tools [role=status]').textContent) await new Promise((f) => setTimeout(f, 20));
    return [first, performance.now()];"""


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--metrics", type=int, default=50)
    arguments = parser.parse_args()
    page_fixture.skip_without_browser()
    misses = 0

    def report(figure, value, goal, unit):
        nonlocal misses
        misses += value > goal
        print(f"{figure:55} {value:8.2f} {unit:4} goal {goal:g}{'' if value <= goal else '  MISSED'}", flush=True)

    with tempfile.TemporaryDirectory(prefix="rl-") as directory, Browser(1600, 1000) as browser:
        node = page_fixture.Node(arguments.build, f"{directory}/node")
        try:
            node.run_job("long", 1, arguments.steps, arguments.metrics, mode="silent")
            served, link = node.serve()
            base = link.split("/?")[0]
            browser.open(link)
            browser.wait("document.querySelector('table.runs a')")
            key = browser.run("return (await (await fetch('/api/runs')).json()).runs[0].key")
            browser.open("about:blank")
            browser.open(f"{base}/#/run/{key}")
            first, whole = browser.run(PAINT)
            what = f"{arguments.steps} steps, {arguments.metrics} metrics"
            report(f"{what}: first curve, from the click", first / 1000, 1, "s")
            report(f"{what}: curves of all rows", whole / 1000, 10, "s")
            report(f"{what}: memory of `ranklog ui`", peak_mib(served), 64, "MiB")

            browser.size(1600, 6500)  # so that all charts are visible
            ranks = node.start_job("live", 8, 450, 50, pause_us=100_000, mode="silent")  # 45 s
            node.await_that(lambda: '"live"' in node.ranklog("runs", "--json"), "the run begins")
            browser.open("about:blank")
            browser.open(f"{base}/#/")
            browser.run("while (![...document.querySelectorAll('table.runs a')].some((a) => a.textContent === 'live')) await new Promise((f) => setTimeout(f, 20));"
                        "[...document.querySelectorAll('table.runs a')].find((a) => a.textContent === 'live').click()")
            browser.wait("[...document.querySelectorAll('.chart')].filter((c) => c.chart.plot).length === 50")
            time.sleep(2)  # the first look is not the steady state
            before, began = cpu_seconds(served), time.monotonic()
            time.sleep(20)
            report("50 live charts, 8 ranks at 10 steps/s: `ranklog ui`", 100 * (cpu_seconds(served) - before) / (time.monotonic() - began), 2, "%")
            if any(rank.poll() is not None for rank in ranks):
                sys.exit("the run ended too early")
        finally:
            node.stop()
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()

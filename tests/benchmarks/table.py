"""Prints the figures of Google Benchmark's JSON files that have a goal, as a table.

A benchmark with a goal sets one counter `figure_<unit>` and `goal_max` or `goal_min`; other counters are shown behind.
"""

import json
import sys

STANDARD = {"name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "threads",
            "repetition_index", "iterations", "real_time", "cpu_time", "time_unit", "items_per_second", "bytes_per_second"}

rows = []
for path in sys.argv[1:]:
    for result in json.load(open(path))["benchmarks"]:
        figure = next((key for key in result if key.startswith("figure_")), None)
        if figure is None:
            continue
        value = result[figure]
        if "goal_max" in result:
            goal, met = f"<= {result['goal_max']:g}", value <= result["goal_max"]
        else:
            goal, met = f">= {result['goal_min']:g}", value >= result["goal_min"]
        rest = ", ".join(f"{key} {value:.3g}" for key, value in result.items()
                         if key not in STANDARD | {figure, "goal_max", "goal_min"} and isinstance(value, (int, float)))
        rows.append((result["name"].split("/")[0].removeprefix("BM_"), f"{value:.3g} {figure.removeprefix('figure_')}", goal,
                     "yes" if met else "no", rest))

header = ("benchmark", "figure", "goal", "met", "beside it")
widths = [max(len(row[i]) for row in [header, *rows]) for i in range(4)]
for row in [header, *rows]:
    print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)), row[4], sep="  ")

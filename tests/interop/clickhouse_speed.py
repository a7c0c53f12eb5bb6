"""Figures of ClickHouse as a destination, in one run, so that their ratios hold on any machine: inserts by `ranklog sync`
against the engine's own INSERT from a file; CPU and bytes per value; each query of deploy/clickhouse at 1,024 ranks. Fails if a goal is missed: a
million values/s, or half of the engine's own insert on a slower or busy machine; the median of each query in a second.

    clickhouse_speed.py RANKLOGD RANKLOG_SCENARIOS RANKLOG [--rows N] [--metrics N]

N rows of each of 8 ranks, with 10 values; the queries run on 1,024 ranks x 1,000 steps x --metrics values.
"""

import argparse
import os
import pathlib
import statistics
import time

import clickhouse_queries
import clickhouse_site
from clickhouse_site import expect, rank_variables

KEYS, RANKS = 10, 8
TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def timed(function):
    begin = time.monotonic()
    function()
    return time.monotonic() - begin


def log_rows(node, run, rows, destination):
    """The ranks one after the other: the machine has few cores."""
    for rank in range(RANKS):
        # Random-like doubles, which hardly compress.
        calls = [{"log": {f"m{key}": ((step * 7919 + key * 104729 + rank * 1299709) % 1000003) / 999983 for key in range(KEYS)}, "step": step} for step in range(rows)]
        node.run_rank([*calls, {"finish": 0}], RANKLOG_RUN_ID=run, RANKLOG_PROJECT="speed", RANKLOG_DESTINATIONS=destination, **rank_variables(rank, RANKS))


def insert_by_sync(server, node, run, rows):
    """Seconds, CPU seconds of `ranklog sync` and of the server."""
    log_rows(node, run, rows, "local")
    node.stop()
    before, server_before = os.times(), cpu(server.process.pid)
    seconds = timed(lambda: node.ranklog("sync", run, "--to", "clickhouse"))
    after = os.times()
    ours = after.children_user + after.children_system - before.children_user - before.children_system
    node.start()
    expect(server.ask(f"SELECT count() FROM points WHERE run = '{run}'"), [[rows * RANKS * KEYS]], "values")
    return seconds, ours, cpu(server.process.pid) - server_before


def floor(server, run):
    """The engine's own insert of the same rows from a file, into the same tables: seconds."""
    server.do("CREATE DATABASE IF NOT EXISTS other", database="default")
    clickhouse_queries.make(server, "other")
    file = server.home / f"{run}.native"
    server.do(f"INSERT INTO FUNCTION file('{file}', 'Native') SELECT * FROM points WHERE run = '{run}'")
    return timed(lambda: server.do(f"INSERT INTO points SELECT * FROM file('{file}', 'Native')", database="other"))


def bytes_on_disk(server, table):
    return server.ask(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() AND table = '{table}'")[0][0]


def fill(server, metrics):
    """1,024 ranks x 1,000 steps, made by the engine, in inserts as nodes send them: 8 ranks x 100 steps and more."""
    place = "'speed' AS project, 'large' AS run, concat('m', toString(number % {m})) AS metric, intDiv(number, {m}) % 1024 AS rank, 1 AS attempt, toInt64(intDiv(number, {m} * 1024)) AS step"
    rest = "toDateTime64(1700000000 + step, 6) AS ts, rank AS stream, step + 1 AS seq, sipHash64(number) / 18446744073709551616. + 0.02 * (rank = 77) AS value"
    sql = f"INSERT INTO points (project, run, metric, rank, attempt, step, ts, stream, seq, value) SELECT {place}, {rest} FROM numbers({metrics} * 1024 * 1000)"
    return timed(lambda: server.do(sql.replace("{m}", str(metrics)) + " SETTINGS max_insert_threads = 2"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs=3)
    parser.add_argument("--rows", type=int, default=40000)
    parser.add_argument("--metrics", type=int, default=100)
    options = parser.parse_args()
    failed = []
    with clickhouse_site.site(*options.programs) as (server, node):
        print(f"engine {server.ask('SELECT version()', database='default')[0][0]}, {os.cpu_count()} cores")
        values = options.rows * RANKS * KEYS
        rates, floors = [], []
        for turn in range(3):  # in turns, because the machine's speed may change
            run = f"speed-{turn}"
            seconds, ours, theirs = insert_by_sync(server, node, run, options.rows)
            of_floor = floor(server, run)
            rates.append(values / seconds)
            floors.append(values / of_floor)
            print(f"insert of {values:,} values: {values / seconds:,.0f} values/s, {1e9 * ours / values:.0f} ns of Ranklog's CPU and {1e9 * theirs / values:.0f} ns of the server's per value; INSERT from a file: {values / of_floor:,.0f} values/s")
        ratio = statistics.median(rate / of for rate, of in zip(rates, floors))
        print(f"inserts: {max(rates):,.0f} values/s; median of the turns: {ratio:.2f} of the engine's INSERT from a file")
        if max(rates) < 1e6 and ratio < 0.5:
            failed.append("insert: below a million values/s, and below half of the engine's own")
        print(f"bytes on disk per value: {bytes_on_disk(server, 'points') / values / 3:.1f} in points, {bytes_on_disk(server, 'rank_statistics') / values / 3:.1f} in rank_statistics (8 ranks)")
        for table in ("points", "rank_statistics"):
            server.do(f"OPTIMIZE TABLE {table} FINAL")
        print(f"after merges: {bytes_on_disk(server, 'points') / values / 3:.1f} in points, {bytes_on_disk(server, 'rank_statistics') / values / 3:.1f} in rank_statistics")
        server.do("DROP DATABASE other", database="default")
        server.do("TRUNCATE TABLE points")
        server.do("TRUNCATE TABLE rank_statistics")
        seconds = fill(server, options.metrics)
        count = server.ask("SELECT count() FROM points")[0][0]
        print(f"{count:,} values of 1,024 ranks, made in {seconds:.0f} s: {bytes_on_disk(server, 'points') / count:.1f} bytes per value in points, {bytes_on_disk(server, 'rank_statistics') / count:.2f} in rank_statistics")
        place = {"project": "speed", "run": "large", "metric": "m0"}
        for name, sql in clickhouse_queries.named("queries.sql").items():
            parameters = {"curve": place | {"rank": 5}, "config": {"project": "speed", "key": "lr", "value": "0.1"}, "lost": {}}.get(name, place)
            answer = []
            times = [timed(lambda: answer.append(server.ask(sql, **parameters))) for _ in range(5)]
            print(f"query {name}: first {1e3 * times[0]:.0f} ms, then {1e3 * min(times[1:]):.0f} to {1e3 * max(times[1:]):.0f} ms, {len(answer[0])} rows")
            if sorted(times)[2] > 1:
                failed.append(f"query {name}: {sorted(times)[2]:.2f} s")
            if name == "slowest":
                print(f"    rank, steps, excess: {answer[0][0][:3]}")
        begin = time.monotonic()
        server.ask("SELECT stream, max(seq) FROM points WHERE project = 'speed' AND run = 'large' GROUP BY project, run, stream")
        print(f"what a delivery asks at its start: {1e3 * (time.monotonic() - begin):.0f} ms")
    assert not failed, failed


if __name__ == "__main__":
    main()

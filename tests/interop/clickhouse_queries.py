"""Everything in deploy/clickhouse runs on ClickHouse's engine, and the answers are right.

    clickhouse_queries.py
"""

import json
import math
import pathlib
import re
import sys
import tempfile
import urllib.parse

import clickhouse_site
from clickhouse_site import expect

FOLDER = clickhouse_site.HERE.parent.parent / "deploy" / "clickhouse"
STEPS, RANKS = 2500, 16


def statements(name):
    """The statements of a file, without comments."""
    text = re.sub(r"(?m)^\s*--.*$", "", (FOLDER / name).read_text())
    return [one.strip() for one in text.split(";\n") if one.strip()]


def named(name):
    """The queries of a file by their names."""
    found = re.findall(r"(?m)^-- name: (\w+)\n((?:(?!^-- name).*\n)*)", (FOLDER / name).read_text())
    return {title: re.sub(r"(?m)^\s*--.*$", "", sql).strip().rstrip(";") for title, sql in found}


def make(server, database="ranklog"):
    server.do(f"CREATE DATABASE IF NOT EXISTS {database}", database="default")
    for statement in statements("schema.sql") * 2:  # doing it twice is harmless
        server.do(statement, database=database)


def fill(server):
    """Two jobs: `a` with 16 ranks and two attempts at its last 500 steps, `b` lost rows."""
    place = f"'p' AS project, 'a' AS run, '{{metric}}' AS metric, number % {RANKS} AS rank"
    columns = "(project, run, metric, rank, attempt, step, ts, value, stream, seq)"
    loss = place.format(metric="loss")
    seconds = place.format(metric="seconds")
    for attempt, first, last in ((1, 0, STEPS), (2, STEPS - 500, STEPS)):
        step = f"toInt64(intDiv(number, {RANKS})) + {first}"
        rest = f"{step} AS step, now64(6), {{value}} AS value, rank + {attempt * 100} AS stream, intDiv(number, {RANKS}) + 1 AS seq FROM numbers({RANKS * (last - first)})"
        value = f"1000. * {attempt} + step + rank / 1024"
        server.do(f"INSERT INTO points {columns} SELECT {loss}, {attempt} AS attempt, {rest.format(value=value)}")
        value = "0.1 + 0.05 * ((rank = 3 AND step % 4 != 0) OR (rank = 7 AND step % 4 = 0))"
        server.do(f"INSERT INTO points {columns} SELECT {seconds}, {attempt} AS attempt, {rest.format(value=value)}")
    for run, state, config, lost in (("a", "finished", {"lr": 0.1, "model": "gpt"}, 0), ("b", "crashed", {"lr": 0.2, "model": "gpt"}, 17)):
        row = {"project": "p", "run": run, "part": 1, "version": 5, "name": f"job {run}", "is_primary": 1, "state": state, "config": json.dumps(config, separators=(",", ":")), "started": "1700000000"}
        server.post("/?" + urllib.parse.urlencode({"database": "ranklog", "query": "INSERT INTO runs (" + ", ".join(row) + ") FORMAT JSONEachRow"}), json.dumps(row).encode())
        server.do(f"INSERT INTO ranks (project, run, stream, version, rank, node, started, ended, lost_rows, losses) SELECT 'p', '{run}', number + 1, 1, number, concat('n', toString(intDiv(number, 8))), now(), now(), {lost} * (number = 3), if(number = 3 AND {lost} > 0, map('ring_full', {lost}), map()) FROM numbers({RANKS})")


def curve(server, query, parameters):
    found = server.ask(query, **parameters, metric="loss", rank=2)
    assert 900 <= len(found) <= 1000, len(found)
    newest = [1000 * (2 if step >= STEPS - 500 else 1) + step + 2 / 1024 for step in range(STEPS)]
    assert [row[0] for row in found] == sorted({row[0] for row in found}), "steps"
    for (step, mean, low, high), (end, *_) in zip(found, [*found[1:], [STEPS]]):
        part = newest[step:end]
        expect((low, high), (min(part), max(part)), f"curve at {step}")
        assert math.isclose(mean, sum(part) / len(part)), (mean, part)


def statistics(server, query, parameters):
    found = server.ask(query, **parameters, metric="loss")
    expect(len(found), STEPS, "steps")
    for step, ranks, mean, std, low, high, fastest, slowest in found:
        base = 1000 * (2 if step >= STEPS - 500 else 1) + step
        values = [base + rank / 1024 for rank in range(RANKS)]
        expect((ranks, low, high, fastest, slowest), (RANKS, min(values), max(values), 0, RANKS - 1), f"step {step}")
        middle = sum(values) / RANKS
        assert math.isclose(mean, middle) and math.isclose(std, math.sqrt(sum((v - middle) ** 2 for v in values) / RANKS), rel_tol=1e-9), step


def slowest(server, query, parameters):
    found = server.ask(query, **parameters, metric="seconds")
    expect([(rank, steps, node) for rank, steps, _, node in found], [(3, STEPS * 3 // 4, "n0"), (7, STEPS // 4, "n0")], "slowest ranks")
    assert math.isclose(found[0][2], 0.05 * 15 / 16, rel_tol=1e-9), found


def config(server, query, _):
    for key, value, runs in (("lr", "0.1", {"a"}), ("model", "gpt", {"a", "b"}), ("lr", "0.3", set())):
        expect({row[0] for row in server.ask(query, project="p", key=key, value=value)}, runs, f"runs with {key} = {value}")


def lost(server, query, _):
    expect(server.ask(query), [["p", "b", 17, {"ring_full": 17}, 1, ["n0"]]], "lost rows")


def repair(server):
    """The statistics lack rows and have some twice; afterwards, they are those of the points."""
    queries = named("repair.sql")
    expect(server.ask(queries["find"]), [], "nothing to repair")
    server.do("ALTER TABLE rank_statistics DELETE WHERE run = 'a' AND step = 9 SETTINGS mutations_sync = 2")
    found = server.ask(queries["find"])
    expect([(row[1], row[2] - row[3]) for row in found], [("a", 2 * RANKS)], "found")
    for step in ("remove", "fill"):
        server.post("/?" + urllib.parse.urlencode({"database": "ranklog", "param_project": "p", "param_run": "a"}), queries[step].encode())
    expect(server.ask(queries["find"]), [], "repaired")


def dashboard(server):
    values = {"project": "p", "run": "a", "metric": "loss", "duration": "seconds"}

    def ask(sql):
        return server.ask(re.sub(r"\$\{(\w+):sqlstring\}", lambda m: f"'{values[m[1]]}'", sql))

    document = json.loads((FOLDER / "dashboard.json").read_text())
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            assert values[variable["name"]] in {row[0] for row in ask(variable["query"])}, variable
    band, straggler, states = (ask(panel["targets"][0]["rawSql"]) for panel in document["panels"])
    assert 900 <= len(band) <= 1000 and all(low <= mean <= high for _, low, mean, high in band), band[:3]
    expect(straggler, [["rank 3", STEPS * 3 // 4], ["rank 7", STEPS // 4]], "straggler")
    expect(states, [["crashed", 1], ["finished", 1]], "states")


def cluster(server):
    """An embedded engine has no keeper. So each statement is parsed, and the tables are made with a local engine: they have the columns of
    schema.sql, and the view feeds the statistics."""
    server.do("CREATE DATABASE shard", database="default")
    for statement in statements("cluster.sql"):
        tree = server.post("/?database=shard", f"EXPLAIN AST {statement}".encode())
        assert tree.startswith(("Create", "Insert")), (statement, tree)
        local = statement.replace(" ON CLUSTER '{cluster}'", "")
        local = re.sub(r"Replicated(\w*)MergeTree\('[^']*', '\{replica\}'(?:, (\w+))?\)", lambda m: f"{m[1]}MergeTree" + (f"({m[2]})" if m[2] else ""), local)
        local = local.replace("SETTINGS replicated_dedup", "SETTINGS non_replicated_dedup")
        local = re.sub(r"CREATE TABLE IF NOT EXISTS (\w+) AS (\w+)\nENGINE = Distributed.*", r"CREATE VIEW \1 AS SELECT * FROM \2", local)
        local = re.sub("INSERT INTO ranklog_schema .*", "INSERT INTO ranklog_schema_local (version) VALUES (1)", local)
        server.do(local, database="shard")
    # Names, columns, codecs, order and settings: those of schema.sql.
    tables = "SELECT name, replaceAll(replaceAll(create_table_query, concat(currentDatabase(), '.'), ''), '_local', '') FROM system.tables WHERE database = currentDatabase() AND NOT startsWith(name, '.inner')"
    plain = dict(server.ask(tables))
    shard = {name.removesuffix("_local"): sql for name, sql in server.ask(tables, database="shard") if name.endswith("_local") or name in ("jobs", "rank_statistics_mv")}
    expect(shard, plain, "the tables of cluster.sql")
    server.do("INSERT INTO points_local SELECT * FROM ranklog.points WHERE run = 'a'", database="shard")
    expect(server.ask("SELECT countMerge(n) FROM rank_statistics", database="shard"), server.ask("SELECT countMerge(n) FROM rank_statistics WHERE run = 'a'"), "view")


def promises(server):
    """What Ranklog relies on: a token drops a repetition in the table and in the view, and a repetition completes a view that lacks the block,
    as after a crash between the two."""
    view = next(one for one in statements("schema.sql") if "MATERIALIZED" in one)
    columns = "project, run, metric, rank, attempt, step, ts, stream, seq, value"
    lines = "".join(json.dumps({"project": "p", "run": "token", "metric": "m", "rank": rank, "attempt": 1, "step": 0, "ts": "1700000000", "stream": 1, "seq": rank + 1, "value": rank}) + "\n" for rank in range(8))

    def insert(token):
        settings = f"insert_deduplicate = 1, insert_deduplication_token = '{token}', deduplicate_blocks_in_dependent_materialized_views = 1"
        sql = f"INSERT INTO points ({columns}) SETTINGS {settings} FORMAT JSONEachRow"
        server.post("/?" + urllib.parse.urlencode({"database": "ranklog", "query": sql}), lines.encode())
        return server.ask("SELECT (SELECT count() FROM points WHERE run = 'token'), (SELECT countMerge(n) FROM rank_statistics WHERE run = 'token')")

    server.do("DROP VIEW rank_statistics_mv")
    expect(insert("a"), [[8, 0]], "a crash before the view")
    server.do(view)
    expect(insert("a"), [[8, 8]], "the repetition")
    expect(insert("a"), [[8, 8]], "another repetition")
    expect(insert("b"), [[16, 16]], "another token")


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        server = clickhouse_site.Server(pathlib.Path(home) / "server")
        try:
            make(server)
            fill(server)
            queries = named("queries.sql")
            checks = (curve, statistics, slowest, config, lost)
            expect(set(queries), {check.__name__ for check in checks}, "queries")
            for check in checks:
                check(server, queries[check.__name__], {"project": "p", "run": "a"})
                print(f"{check.__name__}: as expected", flush=True)
            for check in (repair, dashboard, cluster, promises):
                check(server)
                print(f"{check.__name__}: as expected", flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())

"""What arrives in ClickHouse, with its real engine (S52).

    clickhouse_runs.py RANKLOGD RANKLOG_SCENARIOS RANKLOG [SCENARIO...]
"""

import contextlib
import json
import sys

import clickhouse_site
from clickhouse_site import expect, rank_variables

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def rows(count, rank=0, first=0):
    return [{"log": {"loss": 1 / (step + 1) + rank, "time": rank * 1000 + step}, "step": step} for step in range(first, first + count)]


def start_ranks(nodes, run, count, world, strategy="main", calls=(), **variables):
    """One process per rank, on their nodes, and waits for them."""
    ranks = []
    for rank in range(world):
        node = nodes[rank * len(nodes) // world]
        settings = rank_variables(rank, world, len(nodes)) | {"RANKLOG_RUN_ID": run, "RANKLOG_LOG_STRATEGY": strategy} | variables
        ranks.append(node.rank([*calls, *rows(count, rank), {"finish": 0}], **settings))
    for process in ranks:
        assert process.wait(clickhouse_site.mlflow_site.TIMEOUT) == 0


def check_rows(server, project, run, count, world):
    """Every value of every rank once, in the table and in the view."""
    where = "WHERE project = {project:String} AND run = {run:String}"
    found = server.ask(f"SELECT rank, metric, count(), uniqExact(seq), sum(value) FROM points {where} GROUP BY rank, metric ORDER BY rank, metric", project=project, run=run)
    expected = []
    for rank in range(world):
        expected.append([rank, "loss", count, count, sum(1 / (s + 1) + rank for s in range(count))])
        expected.append([rank, "time", count, count, sum(rank * 1000 + s for s in range(count))])
    assert len(found) == len(expected), (found, expected)
    for (*a, x), (*b, y) in zip(found, expected):
        expect(a, b, "values of a rank")
        assert abs(x - y) < 1e-6, (x, y)
    merged = "countMerge(n), minMerge(lo), maxMerge(hi), argMaxMerge(slowest), argMinMerge(fastest), avgMerge(mean)"
    statistics = server.ask(f"SELECT step, {merged} FROM rank_statistics {where} AND metric = 'time' GROUP BY step ORDER BY step", project=project, run=run)
    for step, n, low, high, slowest, fastest, mean in statistics:
        top = (world - 1) * 1000 + step
        expect([n, low, high, slowest, fastest, mean], [world, step, top, world - 1, 0, (step + top) / 2], f"step {step}")
    expect(len(statistics), count, "steps of the view")


@scenario
def one_run(server, nodes):
    """Rows, texts, config, summary, end and ranks of one process. `verify` agrees."""
    special = {"nan": "$nan", "up": "$inf", "flag": True, "note": "a\ttext\nwith 'quotes' \\", "big": 2**60 + 1}
    calls = [{"config": {"lr": 0.1, "model": {"layers": 12}, "name": "it's"}}, *rows(1200), {"log": special, "step": 1200}]
    calls += [{"summary": {"best": 0.25}}, {"finish": 0}]
    nodes[0].run_rank(calls, RANKLOG_RUN_ID="one", RANKLOG_PROJECT="p1", RANKLOG_NAME="first", RANKLOG_TAGS="a,b c")
    nodes[0].await_delivery("one", "clickhouse")
    expect(server.ask("SELECT count(), uniqExact(seq), min(step), max(step) FROM points WHERE metric = 'loss' AND run = 'one'"), [[1200, 1200, 0, 1199]], "loss")
    expect(server.ask("SELECT isNaN(value) FROM points WHERE metric = 'nan' AND run = 'one'"), [[1]], "NaN")
    texts = server.ask("SELECT metric, value, is_json FROM texts WHERE run = 'one' ORDER BY metric")
    expect(texts, [["big", str(2**60 + 1), 1], ["flag", "true", 1], ["note", special["note"], 0]], "texts")
    ((name, tags, state, config, summary, primary),) = server.ask("SELECT name, tags, state, config, summary, is_primary FROM runs FINAL WHERE run = 'one'")
    expect((name, tags, state, primary), ("first", ["a", "b c"], "finished", 1), "run")
    config, summary = json.loads(config), json.loads(summary.replace("NaN", "null").replace("Infinity", "null"))
    expect((config["lr"], config["model"], config["name"]), (0.1, {"layers": 12}, "it's"), "config")
    expect((summary["best"], summary["loss"], summary["_step"]), (0.25, 1 / 1200, 1200), "summary")
    expect(server.ask("SELECT rank, state, rows, lost_rows FROM ranks FINAL WHERE run = 'one'"), [[0, "finished", 1201, 0]], "ranks")
    expect(server.ask("SELECT job_state, last_step FROM jobs WHERE run = 'one'"), [["finished", 1200]], "jobs")
    report = json.loads(nodes[0].ranklog("verify", "one", "--json"))
    (found,) = [d for d in report["destinations"] if d["kind"] == "clickhouse"]
    expect((found["ok"], found["sent"], found["there"]), (True, 1201, 1201), "verify")


@scenario
def all_nodes(server, nodes):
    """A job of 8 ranks on two nodes: one run, all ranks, under `main`."""
    start_ranks(nodes, "job", 300, 8, RANKLOG_PROJECT="p2", calls=[{"config": {"lr": 0.5}}])
    nodes[0].await_delivery("job", "clickhouse")
    nodes[1].await_delivery("job-4", "clickhouse")
    check_rows(server, "p2", "job", 300, 8)
    expect(server.ask("SELECT count(), uniqExact(node) FROM ranks FINAL WHERE run = 'job'"), [[8, 2]], "ranks")
    expect(server.ask("SELECT parts, job_state, JSONExtractFloat(config, 'lr') FROM jobs WHERE run = 'job'"), [[2, "finished", 0.5]], "jobs")
    for node, run in zip(nodes, ("job", "job-4")):
        assert "all is there" in node.ranklog("verify", run), node.ranklog("verify", run)


@scenario
def strategies(server, nodes):
    """Under `node` and `all`, the ranks' rows are those of the job, too."""
    for strategy in ("node", "all"):
        run = f"by-{strategy}"
        start_ranks(nodes, run, 50, 4, strategy, RANKLOG_PROJECT="p3")
        for rank in range(4):
            if strategy == "all" or rank in (0, 2):
                nodes[rank // 2].await_delivery(f"{run}-{rank}", "clickhouse")
        check_rows(server, "p3", run, 50, 4)


@scenario
def without_steps(server, nodes):
    """Rows without a step count from 0, and go on after a restart of the job."""
    for attempt in range(2):
        calls = [*({"log": {"x": attempt * 10 + i}} for i in range(10)), {"finish": 0}]
        nodes[0].run_rank(calls, RANKLOG_RUN_ID="counted", RANKLOG_PROJECT="p4", RANKLOG_RESUME="allow")
        nodes[0].await_delivery("counted", "clickhouse")
    found = server.ask("SELECT step, value, attempt FROM points WHERE run = 'counted' ORDER BY seq + 100 * attempt")
    expect([(step, value) for step, value, _ in found], [(i, i) for i in range(20)], "rows")
    expect(sorted({attempt for *_, attempt in found}), [1, 2], "attempts")


@scenario
def samples(server, nodes):
    """System metrics of the node, each sample once."""
    calls = [*rows(3), {"pause": 2.5}, {"finish": 0}]
    nodes[0].run_rank(calls, RANKLOG_RUN_ID="sampled", RANKLOG_PROJECT="p5", RANKLOG_SYSTEM_METRICS="1")
    nodes[0].await_delivery("sampled", "clickhouse")
    ((samples, distinct, nodes_there, low),) = server.ask("SELECT count(), uniqExact(number), uniqExact(node), min(value) FROM system_samples WHERE run = 'sampled' AND name = 'cpu'")
    assert samples == distinct >= 2 and nodes_there == 1 and low >= 0, (samples, distinct, nodes_there, low)


@scenario
def sync_later(server, nodes):
    """A run that stayed on its node goes to ClickHouse later."""
    nodes[0].run_rank([*rows(500), {"finish": 1}], RANKLOG_RUN_ID="later", RANKLOG_PROJECT="p6", RANKLOG_DESTINATIONS="local")
    start_ranks(nodes, "parts", 50, 2, RANKLOG_PROJECT="p6", RANKLOG_DESTINATIONS="local")
    for node, runs in zip(nodes, (("later", "parts"), ("parts-1",))):
        node.stop()
        for run in runs:  # a part of a run whose rank 0 is on another node, too
            node.ranklog("sync", run, "--to", "clickhouse", CLICKHOUSE_URL=server.base, CLICKHOUSE_DATABASE="ranklog")
        node.start()
    check_rows(server, "p6", "later", 500, 1)
    check_rows(server, "p6", "parts", 50, 2)
    expect(server.ask("SELECT job_state FROM jobs WHERE run = 'later'"), [["failed"]], "state")


def joined(server, nodes):
    """Nodes with a peer key: the config names the ranks of both, as at other trackers; the rows come from each node by itself."""
    nodes[0].ranklog("peer-key")
    key = nodes[0].home / ".config/ranklog/peer.key"
    addresses = [f"127.0.0.1:{clickhouse_site.mlflow_site.free_port()}" for _ in range(2)]
    with contextlib.ExitStack() as stack:
        pair = []
        for name, address in zip(("home", "part"), addresses):
            settings = {"CLICKHOUSE_URL": server.url, "RANKLOG_DESTINATIONS": "clickhouse", "RANKLOG_PEER_KEY": key, "RANKLOG_PEER_LISTEN": address}
            node = clickhouse_site.Node(nodes[0].home.parent / name, nodes[0].daemon, nodes[0].program, nodes[0].cli, **settings)
            stack.callback(lambda node=node: node.process.kill())
            pair.append(node)
        start_ranks(pair, "joined", 50, 4, RANKLOG_PROJECT="p8", RANKLOG_PEER=addresses[0], RANKLOG_RANK_STATISTICS="*=mean")
        pair[0].await_delivery("joined", "clickhouse")
        pair[1].await_delivery("joined-2", "clickhouse")
        check_rows(server, "p8", "joined", 50, 4)
        ((config,),) = server.ask("SELECT config FROM runs FINAL WHERE run = 'joined' AND is_primary")
        expect(json.loads(config)["ranklog"]["statistics_over"]["nodes"], {"home": "0-1", "part": "2-3"}, "ranks by node")
        assert "all is there" in pair[0].ranklog("verify", "joined"), "verify"


SCENARIOS["joined"] = joined


def verify_finds(server, nodes):
    """`verify` finds a row that is missing, one that is there twice, and one with another value."""
    nodes[0].run_rank([*rows(100), {"finish": 0}], RANKLOG_RUN_ID="bad", RANKLOG_PROJECT="p7")
    nodes[0].await_delivery("bad", "clickhouse")
    server.do("ALTER TABLE points DELETE WHERE run = 'bad' AND step = 17 SETTINGS mutations_sync = 2")
    server.do("INSERT INTO points SELECT * FROM points WHERE run = 'bad' AND step = 5")
    server.do("ALTER TABLE points UPDATE value = value + 1 WHERE run = 'bad' AND step = 30 SETTINGS mutations_sync = 2")
    report = json.loads(nodes[0].ranklog("verify", "bad", "--json", code=1))
    (found,) = [d for d in report["destinations"] if d["kind"] == "clickhouse"]
    expect((found["missing"], found["duplicates"], found["differing"], found["there"]), (1, 1, 1, 98), "verify")
    assert any("rank_statistics" in text for text in found["problems"]), found["problems"]


SCENARIOS["verify_finds"] = verify_finds


def main():
    daemon, program, cli, *chosen = sys.argv[1:]
    with clickhouse_site.site(daemon, program, cli, nodes=("node", "other")) as (server, *nodes):
        for name, function in SCENARIOS.items():
            if not chosen or name in chosen:
                function(server, nodes)
                print(f"{name}: as expected", flush=True)


if __name__ == "__main__":
    main()

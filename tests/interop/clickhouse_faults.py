"""Faults in front of ClickHouse's real engine: every row of every rank arrives exactly once, in the table and in the view.

    clickhouse_faults.py RANKLOGD RANKLOG_SCENARIOS RANKLOG SET_CLOCK [TRIAL...]
"""

import contextlib
import json
import shutil
import signal
import struct
import sys
import time

import clickhouse_site
from clickhouse_site import expect, rank_variables
from mlflow_site import TIMEOUT, wait_for

KEYS = 10
TOKEN_LIFE = 62  # more than that of clickhouse_delivery.h
TRIALS = {}


def trial(function):
    TRIALS[function.__name__] = function
    return function


def rows(first, count, rank=0, texts=True):
    calls = []
    for step in range(first, first + count):
        values = {f"m{key}": step + key / 16 + rank for key in range(KEYS)}
        calls.append({"log": values | ({"note": f"{rank}-{step}"} if texts else {}), "step": step})
    return calls


def parts(count, rank, pause, size=50):
    """Rows with pauses, so that there are many inserts."""
    calls = []
    for first in range(0, count, size):
        calls += [*rows(first, min(size, count - first), rank), {"pause": pause}]
    return [*calls, {"finish": 0}]


def start(node, run, calls_of, world=4, **variables):
    # A daemon that is killed and started again may take longer than the usual 10 s on a busy machine.
    settings = {"RANKLOG_RUN_ID": run, "RANKLOG_PROJECT": "faults", "RANKLOG_FINISH_TIMEOUT_MS": "60000", **variables}
    return [node.rank(calls_of(rank), **rank_variables(rank, world), **settings) for rank in range(world)]


def await_ranks(ranks):
    for process in ranks:
        code = process.wait(TIMEOUT)
        assert code == 0, code


def check(server, node, run, count, world=4, verify=True):
    """The engine counts each value once, in the table, in the view, and each text."""
    where = f"WHERE run = '{run}'"
    values = count * world * KEYS
    total = sum(step + key / 16 + rank for step in range(count) for key in range(KEYS) for rank in range(world))
    ((there, distinct, total_there),) = server.ask(f"SELECT count(), uniqExact(stream, seq, metric), sum(value) FROM points {where}")
    expect((there, distinct), (values, values), f"{run}: values")
    assert abs(total_there - total) < 1e-6 * total, (total_there, total)
    expect(server.ask(f"SELECT countMerge(n) FROM rank_statistics {where}"), [[values]], f"{run}: values in the view")
    expect(server.ask(f"SELECT count(), uniqExact(value) FROM texts {where}"), [[count * world, count * world]], f"{run}: texts")
    expect(server.ask(f"SELECT job_state FROM jobs {where}"), [["finished"]], f"{run}: state")
    if verify:
        (found,) = [d for d in json.loads(node.ranklog("verify", run, "--json"))["destinations"] if d["kind"] == "clickhouse"]
        expect((found["ok"], found["there"]), (True, count * world), f"{run}: verify")


@contextlib.contextmanager
def clocks(node, set_clock):
    """The daemon's clocks, from its next start on. Yields a function that sets the wall clock back, and the boot clock ahead."""
    file = node.home / "clocks"
    file.write_bytes(bytes(16))

    def put(back=0, ahead=0):
        with file.open("r+b") as opened:  # the processes have mapped it, so it must not become shorter
            opened.write(struct.pack("<qq", -back * 10**9, ahead * 10**9))

    node.extra |= {"LD_PRELOAD": set_clock, "RANKLOG_TEST_CLOCK": file}
    yield put
    for name in ("LD_PRELOAD", "RANKLOG_TEST_CLOCK"):
        del node.extra[name]
    node.stop()
    node.start()


def error(node, run):
    return (node.destination(run, "clickhouse") or {}).get("last_error", "")


@trial
def lost_answers(server, node, _):
    """The answer is lost after every third insert; an insert that is repeated counts, too."""
    server.fault(lose_every=3)
    ranks = start(node, "lost", lambda rank: parts(600, rank, 0.4))
    await_ranks(ranks)
    node.await_delivery("lost", "clickhouse", seconds=300)
    server.fault()
    lost = server.counts()["lost"]
    assert lost >= 3, lost
    check(server, node, "lost", 600)
    print(f"lost_answers: {lost} answers lost", flush=True)


@trial
def daemon_killed(server, node, _):
    """The daemon is killed while inserts are slow; so the next one repeats what may be there."""
    server.fault(delay=0.3)
    ranks = start(node, "daemon", lambda rank: parts(600, rank, 0.4))
    for _ in range(4):
        time.sleep(1.1)
        node.stop(signal.SIGKILL)
        node.start()
    await_ranks(ranks)
    server.fault()
    node.await_delivery("daemon", "clickhouse", seconds=200)
    check(server, node, "daemon", 600)


@trial
def server_killed(server, node, _):
    """The server dies in the middle of an insert, several times, and starts again with its directory."""
    ranks = start(node, "server", lambda rank: parts(1500, rank, 0.4))
    for after, moment in ((2, 0.002), (1, 0.005), (3, 0.01), (1, 0.02), (2, 0.04), (1, 0.08)):
        server.fault(die_after=after, moment=moment)
        server.process.wait(TIMEOUT)
        server.start()
    await_ranks(ranks)
    node.await_delivery("server", "clickhouse", seconds=300)
    check(server, node, "server", 1500)


@trial
def view_lacks_cut(server, node, set_clock):
    """The server dies when a cut is in the table, but not in the view, and is down for more than a minute. It still has the token, so the
    repetition completes the view."""
    server.fault(die_before_view=True)
    ranks = start(node, "between", lambda rank: [*rows(0, 300, rank), {"finish": 0}])
    server.process.wait(TIMEOUT)
    await_ranks(ranks)
    node.stop(signal.SIGKILL)
    server.start()
    where = "WHERE run = 'between'"
    ((there, counted),) = server.ask(f"SELECT (SELECT count() FROM points {where}), (SELECT countMerge(n) FROM rank_statistics {where})")
    assert there > 0 and counted == 0, (there, counted)
    with clocks(node, set_clock) as put:
        put(ahead=TOKEN_LIFE)
        node.start()
        node.await_delivery("between", "clickhouse")
    check(server, node, "between", 300)


@trial
def forgotten_tokens(server, node, set_clock):
    """An answer is lost, and the outage lasts longer than the server keeps tokens: the server is asked."""
    server.fault(lose_every=1, delay=2)
    ranks = start(node, "forgotten", lambda rank: [*rows(0, 300, rank), {"finish": 0}])
    await_ranks(ranks)
    wait_for(lambda: server.counts()["lost"] > 0 and server.ask("SELECT count() FROM points WHERE run = 'forgotten'")[0][0] > 0, "an insert whose answer is lost")
    node.stop(signal.SIGKILL)

    def keep_tokens(count):
        for table in ("points", "texts", "rank_statistics"):
            server.do(f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = {count}")

    # The engine forgets all its tokens.
    server.fault()
    keep_tokens(0)
    server.kill()
    server.start()
    with clocks(node, set_clock) as put:
        put(ahead=TOKEN_LIFE)
        node.start()
        node.await_delivery("forgotten", "clickhouse")
    check(server, node, "forgotten", 300)
    keep_tokens(100000)


@trial
def view_dropped(server, node, _):
    """Somebody drops the view: no rows are sent, and the user is told. After the repair, it lacks none."""
    go = node.home / "go"
    ranks = start(node, "view", lambda rank: [*rows(0, 50, rank), {"await": str(go)}, *rows(50, 50, rank), {"finish": 0}])
    wait_for(lambda: server.ask("SELECT count() FROM points WHERE run = 'view'")[0][0] == 50 * 4 * KEYS, "the first rows")
    sql = server.ask("SELECT create_table_query FROM system.tables WHERE name = 'rank_statistics_mv' AND database = currentDatabase()")[0][0]
    server.do("DROP VIEW rank_statistics_mv")
    wait_for(lambda: "somebody dropped rank_statistics_mv" in error(node, "view"), "the message", 90)
    go.touch()
    await_ranks(ranks)
    time.sleep(2)
    expect(server.ask("SELECT count() FROM points WHERE run = 'view'"), [[50 * 4 * KEYS]], "no rows are sent")
    server.do(sql)
    node.await_delivery("view", "clickhouse", seconds=150)
    check(server, node, "view", 100)


def ask_again(node):
    """At once: a daemon asks again after a minute, as view_dropped tests, and at its start."""
    node.stop()
    node.start()


def refused(server, node, run, code, message, requests):
    """A temporary refusal of the server."""
    server.fault(refuse=code, requests=requests, inserts=True)
    ranks = start(node, run, lambda rank: parts(200, rank, 0.3))
    wait_for(lambda: message in error(node, run), f"the message of {code}", 60)
    await_ranks(ranks)
    node.await_delivery(run, "clickhouse", seconds=200)
    server.fault()
    check(server, node, run, 200)


@trial
def too_many_parts(server, node, _):
    """Error 252: it waits, and sends larger cuts afterwards."""
    before = server.counts()
    refused(server, node, "parts", 252, "TOO_MANY_PARTS", 2)
    after = server.counts()
    assert after["refused"] - before["refused"] == 2, (before, after)
    assert after["inserts"] - before["inserts"] <= 16, (before, after)  # 4 pauses of 0.3 s, then 2 s and more


@trial
def full_disk(server, node, _):
    """The server's disk is full, then a replica is read-only."""
    refused(server, node, "full", 243, "NOT_ENOUGH_SPACE", 2)
    refused(server, node, "replica", 242, "TABLE_IS_READ_ONLY", 2)


@trial
def read_only_account(server, node, _):
    """An account without the right to insert: the user is told what to grant."""
    server.fault(refuse=497, requests=10**6, inserts=True)
    ranks = start(node, "rights", lambda rank: [*rows(0, 50, rank), {"finish": 0}])
    await_ranks(ranks)
    wait_for(lambda: "to continue, grant the account" in error(node, "rights"), "the advice")
    server.fault()
    ask_again(node)
    node.await_delivery("rights", "clickhouse", seconds=150)
    check(server, node, "rights", 50)


@trial
def newer_schema(server, node, _):
    """Tables of a newer version are refused, and nothing is inserted."""
    server.do("INSERT INTO ranklog_schema (version) VALUES (2)")
    node.run_rank([*rows(0, 10), {"finish": 0}], RANKLOG_RUN_ID="newer", RANKLOG_PROJECT="faults")
    wait_for(lambda: "have version 2, this program knows version 1" in error(node, "newer"), "the message")
    expect(server.ask("SELECT count() FROM points WHERE run = 'newer'"), [[0]], "rows")
    server.do("ALTER TABLE ranklog_schema DELETE WHERE version = 2 SETTINGS mutations_sync = 2")
    ask_again(node)
    node.await_delivery("newer", "clickhouse", seconds=150)
    check(server, node, "newer", 10, world=1)


@trial
def clock_set_back(server, node, set_clock):
    """The daemon's clock is set back by an hour, and by another one while it is down."""
    node.stop()
    with clocks(node, set_clock) as put:
        node.start()
        server.fault(lose_every=2)
        ranks = start(node, "clock", lambda rank: parts(300, rank, 0.4))
        time.sleep(1.5)
        put(back=3600)
        time.sleep(0.5)
        node.stop(signal.SIGKILL)
        put(back=7200)
        node.start()
        await_ranks(ranks)
        server.fault()
        node.await_delivery("clock", "clickhouse", seconds=200)
    check(server, node, "clock", 300)


@trial
def older_store(server, node, _):
    """A store that forgot what was delivered (a backup, `recover`): the server is asked, and no row is there twice."""
    for rank in (0, 1):
        node.run_rank([*rows(0, 200, rank), {"finish": 0}], RANKLOG_RUN_ID="older", RANKLOG_PROJECT="faults", RANKLOG_DESTINATIONS="local", **rank_variables(rank, 2))
    node.stop()
    copy = node.home / "copy"
    shutil.copytree(node.home / "state", copy)
    node.ranklog("sync", "older", "--to", "clickhouse")
    shutil.rmtree(node.home / "state")
    shutil.copytree(copy, node.home / "state")
    node.ranklog("sync", "older", "--to", "clickhouse")
    node.start()
    check(server, node, "older", 200, world=2)


@trial
def wrong_password(_, node, __):
    """The server wants another password: the user is told; no log has one."""
    home = node.home.parent / "guarded"
    server = clickhouse_site.Server(home, "--user", "ann", "--password", "right-secret")
    server.headers = {"X-ClickHouse-User": "ann", "X-ClickHouse-Key": "right-secret"}
    try:
        variables = {"RANKLOG_PROJECT": "faults", "CLICKHOUSE_URL": server.base, "CLICKHOUSE_DATABASE": "mine", "CLICKHOUSE_USER": "ann"}
        node.run_rank([*rows(0, 20), {"finish": 0}], RANKLOG_RUN_ID="refused", CLICKHOUSE_PASSWORD="wrong-secret", **variables)
        wait_for(lambda: "Authentication failed" in error(node, "refused"), "the message")
        node.run_rank([*rows(0, 20), {"finish": 0}], RANKLOG_RUN_ID="accepted", CLICKHOUSE_PASSWORD="right-secret", **variables)
        node.await_delivery("accepted", "clickhouse")
        expect(server.ask("SELECT count() FROM points WHERE run = 'accepted'", database="mine"), [[20 * KEYS]], "rows")
        for text in (node.log(), node.ranklog("status"), error(node, "refused")):
            assert "-secret" not in text, text
        for file in (node.home / "state").iterdir():
            assert b"-secret" not in (file.read_bytes() if file.is_file() else b""), file
    finally:
        server.kill()


def main():
    daemon, program, cli, set_clock, *chosen = sys.argv[1:]
    with clickhouse_site.site(daemon, program, cli) as (server, node):
        node.run_rank([*rows(0, 1), {"finish": 0}], RANKLOG_RUN_ID="first", RANKLOG_PROJECT="faults")  # makes the tables
        node.await_delivery("first", "clickhouse")
        for name, function in TRIALS.items():
            if not chosen or name in chosen:
                begin = time.monotonic()
                function(server, node, set_clock)
                print(f"{name}: as expected ({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

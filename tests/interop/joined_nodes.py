"""S48: the ranks of several nodes, each with its real daemon, are joined in the run of rank 0, whatever fails.

    joined_nodes.py RANKLOGD RANKLOG PYTHONPATH [TRIAL...]

A node is a network namespace on a bridge, with a host name and a /dev/shm of its own. Namespaces and processes end with this
program, even if it is killed: they are in a PID namespace of its own. Exit code 77: not root, or no namespaces.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from waiting import wait_for  # noqa: E402

TIMEOUT = 90  # for a busy machine
RANKS = 2  # of a node
PORT = 20000 + os.geteuid() % 10000
INSIDE = "RANKLOG_JOINED_NODES_INSIDE"

# argv: steps, seconds between them, the directory of the barrier. The ranks of all nodes step together, as collectives make
# them.
RANK = """
import os, pathlib, sys, time
import ranklog
steps, interval, barrier = int(sys.argv[1]), float(sys.argv[2]), pathlib.Path(sys.argv[3])
rank = int(os.environ["RANK"])
run = ranklog.init(project="joined")
(barrier / f"ready-{rank}").touch()
while not (barrier / "go").exists():
    time.sleep(0.02)
begin = float((barrier / "go").read_text())
for step in range(steps):
    time.sleep(max(0, begin + step * interval - time.monotonic()))
    assert run.log({"loss": 1000 * rank + step, "same": step}) is not False
    (barrier / f"step-{rank}").write_text(str(step))
run.finish()
"""


def in_node(holder):
    return ["nsenter", f"--target={holder}", "--net", "--uts", "--mount", "--"]


class Node:
    """A host with a daemon, its ranks, and the tools of its user."""

    def __init__(self, lan, index):
        self.lan, self.index, self.name = lan, index, f"node{index}"
        self.address = f"10.9.0.{index + 1}"
        self.home = lan.home / self.name
        self.home.mkdir(mode=0o700)
        (self.home / "config/ranklog").mkdir(parents=True)
        self.daemon, self.ranks, self.options = None, [], []
        private = f"mount -t tmpfs none /dev/shm; mount -t tmpfs none /run; mount -t tmpfs none /var/tmp; mount --bind {lan.home}/hosts /etc/hosts"
        script = f"hostname {self.name}; {private}; echo; exec sleep infinity"
        self.holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-ec", script], stdout=subprocess.PIPE)
        assert self.holder.stdout.read(1), self.name
        lan.ip(f"link add port{index} type veth peer name eth0 netns {self.holder.pid}")
        lan.ip(f"link set port{index} master switch up")
        for command in ("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"):
            subprocess.run([*in_node(self.holder.pid), "ip", *command.split()], check=True)

    def set_key(self, key):
        shutil.copy(key, self.home / "config/ranklog/peer.key")

    def environment(self):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": f"{self.home}/config",
            "PYTHONPATH": self.lan.python_path,
            "RANKLOG_ADDRESS": f"unix:{self.home}/d.sock",
            "RANKLOG_STATE_DIR": f"{self.home}/state",
            "RANKLOG_START_DAEMON": "false",
            "RANKLOG_SYSTEM_METRICS": "0",
            "RANKLOG_DESTINATIONS": "local",
        }

    def popen(self, command, log, **variables):
        environment = {**self.environment(), **{k: str(v) for k, v in variables.items()}}
        with open(self.home / log, "ab") as file:
            return subprocess.Popen([*in_node(self.holder.pid), *map(str, command)], env=environment, stdout=file, stderr=file, cwd=self.home)

    def start(self, *options):
        self.options = [*options] or self.options
        self.daemon = self.popen([self.lan.ranklogd, "--sample-interval", "0", "--first-row-wait", "20s", *self.options], "daemon.log")

        def accepts():
            assert self.daemon.poll() is None, (self.home / "daemon.log").read_text()[-3000:]
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(f"{self.home}/d.sock") == 0

        wait_for(accepts, f"the start of the daemon of {self.name}")

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()

    def start_ranks(self, job, world, steps, interval):
        self.ranks = []
        for local in range(RANKS):
            rank = self.index * RANKS + local
            variables = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": RANKS, "GROUP_RANK": self.index}
            variables |= {"MASTER_ADDR": self.lan.nodes[0].address, "MASTER_PORT": 29500, "RANKLOG_RUN_ID": job}
            self.ranks.append(self.popen([sys.executable, "-c", RANK, steps, interval, self.lan.barrier], "ranks.log", **variables))

    def vanish(self):
        """Kills all processes of the node."""
        for process in [self.daemon, *self.ranks]:
            process.kill()
            process.wait()

    def ranklog(self, *args, code=0):
        command = [*in_node(self.holder.pid), self.lan.cli, *args]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=TIMEOUT, cwd=self.home)
        assert code is None or done.returncode == code, f"{self.name}, {args}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def json(self, *args, code=0):
        return json.loads(self.ranklog(*args, "--json", code=code))

    def run(self, job):
        return next((run for run in self.json("runs") if run["run_id"].startswith(job)), None)

    def rows(self, run):
        return {row["_step"]: row for row in map(json.loads, self.ranklog("export", run).splitlines())}

    def peer(self):
        return self.json("status")["daemon"]["peer"]

    def link(self):
        """The link of its run to rank 0's node; None if it has nothing to send."""
        return next(iter(self.peer()["links"]), None)


class Lan:
    def __init__(self, home, ranklogd, cli, python_path):
        self.home, self.ranklogd, self.cli, self.python_path = home, ranklogd, cli, python_path
        (home / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"10.9.0.{index + 1} node{index}\n" for index in range(8)))
        self.ip("link add switch type bridge")
        self.ip("link set switch up")
        self.nodes = []
        self.world = 0
        self.key = self.make_key("key")

    def ip(self, command):
        subprocess.run(["ip", *command.split()], check=True)

    def make_key(self, name):
        subprocess.run([self.cli, "peer-key", self.home / name], check=True, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "HOME": str(self.home)})
        return self.home / name

    def build(self, count):
        for index in range(count):
            self.nodes.append(Node(self, index))
            self.nodes[-1].set_key(self.key)
        return self.nodes

    def cut(self, node):
        self.ip(f"link set port{node.index} down")

    def mend(self, node):
        self.ip(f"link set port{node.index} up")

    def prepare(self, job, steps):
        self.world, self.steps = RANKS * len(self.nodes), steps
        self.barrier = self.home / f"barrier-{job}"
        self.barrier.mkdir()

    def go(self):
        wait_for(lambda: len(list(self.barrier.glob("ready-*"))) == self.world, "the start of the ranks")
        (self.barrier / "new").write_text(str(time.monotonic() + 0.1))
        (self.barrier / "new").rename(self.barrier / "go")

    def start_ranks(self, job, steps, interval):
        self.prepare(job, steps)
        for node in self.nodes:
            node.start_ranks(job, self.world, steps, interval)
        self.go()

    def await_step(self, step, rank=0):
        def reached():
            file = self.barrier / f"step-{rank}"
            return file.exists() and int(file.read_text() or -1) >= step

        wait_for(reached, f"step {step}")

    def await_ranks(self, nodes=None):
        for node in nodes or self.nodes:
            for rank in node.ranks:
                assert rank.wait(TIMEOUT) == 0, (node.home / "ranks.log").read_text()[-3000:]

    def await_end(self, job, nodes=None, seconds=TIMEOUT):
        """Waits until the run has ended at home, and the other nodes have nothing left to send."""
        wait_for(lambda: (self.nodes[0].run(job) or {}).get("state") in ("finished", "crashed"), f"the end of {job} at home", seconds)
        for node in (nodes or self.nodes)[1:]:
            wait_for(lambda node=node: node.link() is None, f"everything of {node.name} is sent", seconds)

    def log(self):
        return "\n".join(f"== {node.name}\n{(node.home / 'daemon.log').read_text()[-3000:]}" for node in self.nodes if (node.home / "daemon.log").exists())


def check_rows(lan, job):
    """Each row's statistics are those of the ranks that it counts. Returns these numbers of ranks, by step."""
    rows = lan.nodes[0].rows(job)
    assert sorted(rows) == list(range(lan.steps)), f"{len(rows)} rows of {lan.steps}"
    counts = {}
    for step, row in rows.items():
        assert row["loss"] == row["same"] == step and "rank_mean/same" not in row, row
        if "rank_mean/loss" not in row:  # one rank has no statistics
            counts[step] = 1
            continue
        count = counts[step] = row.get("rank_count/loss", lan.world)
        assert row["rank_min/loss"] == step and row["rank_max/loss"] >= 1000 * (count - 1) + step, row
        if count == lan.world:
            assert row["rank_max/loss"] == 1000 * (count - 1) + step, row
            assert row["rank_mean/loss"] == 500 * (count - 1) + step and "rank_count/loss" not in row, row
    return counts


def check(lan, job, nodes=None):
    """Home has each row of each rank of the nodes once. Returns the steps that lack ranks, whose rows came late."""
    nodes = nodes or lan.nodes
    ranks = RANKS * len(nodes)
    counts = check_rows(lan, job)
    found = lan.nodes[0].json("verify", job, code=None)
    late = found["sum"]["late"]
    assert found["ok"] == (late == 0) and found["store"]["ok"], found  # late rows are the only problem
    assert all("too late for the run" in problem for rank in found["ranks"] for problem in rank["problems"]), found
    assert {rank["rank"]: rank["rows"] for rank in found["ranks"]} == {rank: lan.steps for rank in range(ranks)}, found
    assert found["sum"]["holds"] and found["sum"]["rows"] == lan.steps * ranks, found["sum"]
    assert late == sum(ranks - count for count in counts.values()), (late, counts)
    for node in nodes[1:]:  # each knows which of its rows were late
        late_here = sum(rank["late_rows"] for rank in found["ranks"] if rank["rank"] // RANKS == node.index)
        part = node.json("verify", "latest", code=None)
        assert part["ok"] == (late_here == 0), (node.name, late_here, part)
        assert part["joined"] == part["joined"] | {"late": late_here, "joined": RANKS * lan.steps - late_here, "complete": True}, (node.name, late_here, part)
    partial = [step for step, count in counts.items() if count != ranks]
    print(f"{job}: {lan.steps} steps, {len(partial)} without all ranks ({partial[:1]} to {partial[-1:]}), {late} late rows", flush=True)
    return partial


def all_joined(lan):
    """Statistics over the ranks of all nodes, the ranks of each node in the config, and order: home's daemon first."""
    nodes = lan.build(4)
    for node in nodes:
        node.start()
    lan.start_ranks("whole", 60, 0.1)
    lan.await_ranks()
    lan.await_end("whole")
    assert check(lan, "whole") == []
    text = json.dumps(nodes[0].json("show", "whole"))
    for node in nodes:
        assert f'"{node.name}": "{2 * node.index}-{2 * node.index + 1}"' in text, text[-3000:]
    assert {peer["node"] for peer in nodes[0].peer()["nodes"]} == {node.name for node in nodes[1:]}


def short_cut(lan):
    """A link is cut for 5 s: the other steps wait, and no row is late."""
    nodes = lan.build(3)
    for node in nodes:
        node.start()
    lan.start_ranks("short", 150, 0.1)
    lan.await_step(30)
    lan.cut(nodes[2])
    time.sleep(5)
    lan.mend(nodes[2])
    lan.await_ranks()
    lan.await_end("short")
    assert check(lan, "short") == []


def long_cut(lan):
    """A link is cut for longer than --step-wait. Both sides show it. At the end, home has all rows, some late."""
    nodes = lan.build(3)
    for node in nodes:
        node.start("--step-wait", "5s")
    lan.start_ranks("long", 400, 0.1)
    lan.await_step(30)
    lan.cut(nodes[2])
    begin = time.monotonic()
    link = wait_for(lambda: (found := nodes[2].link()) and found["error"] and found, "the reason in the status of the node that is cut off")
    told = time.monotonic() - begin
    assert link["home"] == f"{nodes[0].address}:{PORT}" and link["waiting_rows"] > 0, link
    (silent,) = [peer for peer in nodes[0].peer()["nodes"] if peer["node"] == "node2"]
    assert silent["silent_seconds"] > 5 and silent["streams"] == RANKS, silent
    time.sleep(max(0, 22 - told))  # longer than the limit of a request
    lan.mend(nodes[2])
    mended = time.monotonic()
    wait_for(lambda: (found := nodes[2].link()) is None or not found["error"], "the node is back")
    print(f"long: the reason after {told:.1f} s ({link['error']}), back {time.monotonic() - mended:.1f} s after the mend", flush=True)
    lan.await_ranks()
    lan.await_end("long")
    partial = check(lan, "long")
    assert partial and partial[0] > 20 and partial[-1] < lan.steps - 1, partial


def daemons_killed(lan):
    """Home's daemon is killed twice and started again, and that of another node: nothing is lost, and nothing counted twice."""
    nodes = lan.build(3)
    for node in nodes:
        node.start()
    lan.start_ranks("killed", 150, 0.1)
    for step, node, seconds in ((30, nodes[0], 1), (60, nodes[1], 3), (110, nodes[0], 1)):
        lan.await_step(step)
        node.kill()
        time.sleep(seconds)
        node.start()
    lan.await_ranks()
    lan.await_end("killed")
    assert check(lan, "killed") == []


def node_gone(lan):
    """All processes of a node are killed, for ever: the run ends within a minute, with the statistics of the others."""
    nodes = lan.build(3)
    for node in nodes:
        node.start("--step-wait", "3s")
    lan.start_ranks("gone", 100, 0.1)
    lan.await_step(40)
    nodes[2].vanish()
    lan.await_ranks(nodes[:2])
    ended = time.monotonic()
    lan.await_end("gone", nodes[:2], seconds=60)
    print(f"gone: ended {time.monotonic() - ended:.1f} s after the last rank", flush=True)
    counts = check_rows(lan, "gone")
    assert all(counts[step] == lan.world for step in range(35)) and all(counts[step] in (4, 5, 6) for step in counts), counts
    assert counts[99] == 4, counts
    assert nodes[0].run("gone")["state"] == "finished"  # as far as the others know
    found = nodes[0].json("verify", "gone", code=1)["ranks"]
    assert ["not heard of" in str(rank["problems"]) for rank in found] == [False] * 4 + [True] * 2, found
    ranks = {rank["rank"]: rank["rows"] for rank in found}
    assert [ranks[rank] for rank in range(4)] == [100] * 4 and all(30 <= ranks[rank] < 100 for rank in (4, 5)), ranks


def strangers(lan):
    """A node with another key and one without a key: not joined, and their status shows why. Nothing else changes."""
    nodes = lan.build(4)
    nodes[2].set_key(lan.make_key("other-key"))
    (nodes[3].home / "config/ranklog/peer.key").unlink()
    for node in nodes:
        node.start("--step-wait", "3s")
    lan.start_ranks("strangers", 60, 0.1)
    link = wait_for(lambda: (found := nodes[2].link()) and found["error"] and found, "the reason of the other key")
    print(f"strangers: {link['error']}", flush=True)
    peer = nodes[3].peer()
    assert peer["links"] == [] and peer["fingerprint"] == peer["address"] == "", peer
    wait_for(lambda: "there is no peer key" in nodes[3].ranklog("status"), "the reason of the missing key")
    lan.await_ranks()
    joined = nodes[:2]
    lan.await_end("strangers", joined, seconds=150)
    assert check(lan, "strangers", joined) == []
    heard = nodes[0].json("verify", "strangers")
    assert (heard["heard_ranks"], heard["world_size"]) == (4, 8), heard
    for node in nodes[2:]:  # its own ranks have their own statistics, and all rows
        found = node.json("verify", "strangers", code=None)
        assert found["store"]["ok"] and found["ok"] == (node is nodes[3]), found
        assert len(node.rows("strangers")) == lan.steps
        assert node.rows("strangers")[7]["rank_max/loss"] == 1000 * (2 * node.index + 1) + 7
    assert nodes[2].link()["waiting_rows"] == RANKS * lan.steps
    stuck = f"run strangers-4 waits for rank 0's node at {nodes[0].address}:{PORT} for "
    wait_for(lambda: any(problem.startswith(stuck) for problem in nodes[2].json("status")["problems"]), "the problem of the node that is not joined")
    nodes[2].ranklog("status", "--check", code=1)
    nodes[2].ranklog("rm", "strangers-4", "--yes", code=1)
    nodes[3].ranklog("rm", "strangers-6", "--yes")
    assert [peer["node"] for peer in nodes[0].peer()["nodes"]] == ["node1"]


CLIENTS = """
import socket, sys, time
address = (sys.argv[1], int(sys.argv[2]))
idle = []
end = time.monotonic() + float(sys.argv[3])
for _ in range(300):
    try: idle.append(socket.create_connection(address, timeout=5))
    except OSError: pass
print(len(idle), flush=True)
texts = [b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n", bytes(range(256)) * 64, b"\\x16\\x03\\x01\\x40\\x00" + b"\\x01" * 100, b""]
while time.monotonic() < end:
    for text in texts:
        try:
            with socket.create_connection(address, timeout=5) as client:
                client.sendall(text)
                time.sleep(0.02)
        except OSError: pass
"""


def scanners(lan):
    """Plain-text and garbage clients and 300 idle connections at home's port, while rows flow."""
    nodes = lan.build(3)
    for node in nodes:
        node.start()
    scan = [sys.executable, "-c", CLIENTS, nodes[0].address, PORT]
    early = nodes[1].popen([*scan, 5], "early.log")
    wait_for(lambda: (nodes[1].home / "early.log").read_text().strip(), "the idle connections")
    lan.start_ranks("scanned", 100, 0.1)
    late = nodes[2].popen([*scan, 8], "late.log")
    lan.await_ranks()
    assert early.wait(TIMEOUT) == 0 and late.wait(TIMEOUT) == 0
    lan.await_end("scanned")
    assert check(lan, "scanned") == []
    assert nodes[0].peer()["error"] == ""


def home_last(lan):
    """Home's daemon starts when the ranks have already logged for 4 s: all rows are joined, and the last ones by all ranks."""
    nodes = lan.build(3)
    for node in nodes[1:]:
        node.start()
    lan.start_ranks("last", 200, 0.1)
    lan.await_step(40)
    nodes[0].start()
    lan.await_ranks()
    lan.await_end("last")
    partial = check(lan, "last")
    assert not partial or partial[-1] < 150, partial


def any_moment(lan):
    """Daemons, also home's, are killed or stopped, and links cut, at random moments: nothing is late, lost or counted twice."""
    seed = int(os.environ.get("RANKLOG_SEED", time.time_ns() % 10**6))
    print(f"RANKLOG_SEED={seed}", flush=True)
    rng = random.Random(seed)
    nodes = lan.build(4)
    for node in nodes:
        node.start()
    lan.start_ranks("any", 250, 0.1)
    end = time.monotonic() + 22
    while time.monotonic() < end:
        node, fault = rng.choice(nodes), rng.choice(("kill", "kill", "stop", "cut"))
        if fault == "kill":
            node.kill()
            time.sleep(rng.uniform(0, 1))
            node.start()
        elif fault == "stop":
            node.daemon.send_signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0, 3))
            node.daemon.send_signal(signal.SIGCONT)
        else:
            lan.cut(node)
            time.sleep(rng.uniform(0, 4))
            lan.mend(node)
        time.sleep(rng.uniform(0, 1))
    lan.await_ranks()
    lan.await_end("any")
    assert check(lan, "any") == []


def drained(lan):
    """Daemons that stop with --drain at the end of the job wait for each other. Their logs say whether rows are left."""
    nodes = lan.build(3)

    def stop_all_with_a_cut(job, options, meanwhile):
        for node in nodes:
            node.start(*options)
        lan.start_ranks(job, 60, 0.1)
        lan.await_step(40)
        lan.cut(nodes[2])
        lan.await_ranks()
        before = [len((node.home / "daemon.log").read_text()) for node in nodes]
        for node in nodes:
            node.daemon.terminate()
        meanwhile()
        for node in nodes:
            assert node.daemon.wait(TIMEOUT) == 0
        lan.mend(nodes[2])
        return [(node.home / "daemon.log").read_text()[length:] for node, length in zip(nodes, before)]

    def mend():
        time.sleep(4)
        assert nodes[0].daemon.poll() is None and nodes[2].daemon.poll() is None, "they wait for each other"
        lan.mend(nodes[2])

    logs = stop_all_with_a_cut("drained", ["--drain", "60s"], mend)
    assert all("all rows are delivered" in log for log in logs), logs
    assert nodes[0].run("drained")["state"] == "finished"
    assert check(lan, "drained") == []

    logs = stop_all_with_a_cut("left", ["--drain", "3s"], lambda: None)
    assert ["not all rows are delivered" in log for log in logs] == [True, False, True], logs
    assert f"rows wait for rank 0's node at {nodes[0].address}:{PORT}" in logs[2], logs[2]


def torchrun(lan, nodes, options):
    for node in nodes:
        own = [option.format(node=node.index) for option in options]
        command = ["torchrun", "--redirects", "1", "--tee", "1", "--log_dir", node.home / "torchrun", "--no_python", "--monitor_interval", "0.5"]
        command += ["--nnodes", "2", "--nproc_per_node", RANKS, *own, sys.executable, "-c", RANK, lan.steps, 0.1, lan.barrier]
        node.ranks = [node.popen(command, "ranks.log", OMP_NUM_THREADS=1)]
    lan.go()
    lan.await_ranks()


def launched(lan):
    """The ranks of the real torchrun find home without a setting: its MASTER_ADDR is rank 0's node."""
    if shutil.which("torchrun") is None:
        print("absent: torchrun (package python3-torch)")
        sys.exit(1 if os.environ.get("CI") else 77)
    nodes = lan.build(2)
    for node in nodes:
        node.start()
    ways = {
        "static": ["--node_rank", "{node}", "--master_addr", "node0", "--master_port", "29500"],
        "c10d": ["--rdzv_backend", "c10d", "--rdzv_endpoint", "node1:29400", "--rdzv_id", "elastic"],  # rank 0 is not where the rendezvous is
    }
    for way, options in ways.items():
        lan.prepare(way, 30)
        torchrun(lan, nodes, options)
        newest = {node: max(node.json("runs"), key=lambda run: run["started"]) for node in nodes}
        lan.nodes = sorted(nodes, key=lambda node: newest[node]["local_only"])  # with c10d, either node may have rank 0
        run = newest[lan.nodes[0]]["run_id"]
        lan.await_end(run)
        assert check(lan, run) == []
        print(f"{way}: rank 0 is on {lan.nodes[0].name}", flush=True)


TRIALS = (all_joined, short_cut, long_cut, daemons_killed, node_gone, strangers, scanners, home_last, any_moment, drained, launched)


def inside(ranklogd, cli, python_path, chosen):
    for trial in TRIALS:
        if chosen and trial.__name__ not in chosen:
            continue
        with tempfile.TemporaryDirectory(prefix="ranklog-nodes-") as home, contextlib.ExitStack() as stack:
            lan = Lan(pathlib.Path(home), ranklogd, cli, python_path)
            stack.callback(remove, lan)
            begin = time.monotonic()
            try:
                trial(lan)
            except Exception:
                print(f"{trial.__name__} failed\n{lan.log()}", flush=True)
                raise
            print(f"{trial.__name__}: as expected, {time.monotonic() - begin:.1f} s", flush=True)


def remove(lan):
    for node in lan.nodes:
        for process in [*node.ranks, node.daemon, node.holder]:
            if process is not None:
                process.kill()
                process.wait()
    lan.ip("link delete switch")


def main():
    ranklogd, cli, python_path, *chosen = sys.argv[1:]
    if os.environ.get(INSIDE):
        inside(ranklogd, cli, python_path, chosen)
        return
    # The mount namespace hides the nodes' mounts; the PID namespace ends with `unshare`, and all processes with it.
    own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    trial = "ip link set lo up; ip link add switch type bridge; ip link add port0 type veth peer name eth0; ip link set port0 master switch up"
    possible = subprocess.run([*own, "sh", "-ec", trial], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if possible.returncode != 0:
        print(f"absent: root, and network namespaces with a bridge: {possible.stdout}")
        sys.exit(1 if os.environ.get("CI") else 77)
    os.execvpe(own[0], [*own, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


if __name__ == "__main__":
    main()

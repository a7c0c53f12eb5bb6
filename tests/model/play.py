"""Plays a job: starts the real ranklogd and ranks, sends the ranks one act after the other, and then queries `ranklog`."""

import json
import os
import pathlib
import socket
import subprocess
import time

PATIENCE = 60  # seconds; a busy machine is slow


class Failure(Exception):
    """The programs broke a promise that holds for every job; the text describes it."""


class Node:
    def __init__(self, programs, folder, number):
        self.programs, self.number = programs, number
        self.folder = folder / f"node{number}"
        self.folder.mkdir(mode=0o700)
        self.spool = self.folder / "spool"
        self.state = self.folder / "state"
        self.socket = self.folder / "d.sock"
        self.daemon = None

    def start_daemon(self):
        with open(self.folder / "log", "a") as log:
            self.daemon = subprocess.Popen(
                [self.programs.ranklogd, "--state-dir", self.state, "--listen", f"unix:{self.socket}", "--spool-dir", self.spool,
                 "--step-wait", "10m", "--first-row-wait", "10m"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean_environment())
        self.wait("ranklogd accepts connections", self.accepts)

    def accepts(self):
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0

    def wait(self, what, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise Failure(f"node {self.number}: not within {PATIENCE} s: {what}")
            if self.daemon.poll() is not None:
                raise Failure(f"node {self.number}: ranklogd ended with {self.daemon.returncode}")
            time.sleep(0.02)

    def ranklog(self, *arguments):
        done = subprocess.run([self.programs.ranklog, *arguments, "--state-dir", self.state], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, env=clean_environment())
        if done.returncode != 0:
            raise Failure(f"node {self.number}: ranklog {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def runs(self):
        return json.loads(self.ranklog("runs", "--json"))

    # All rows are in the store, and its runs have ended.
    def at_rest(self, ranks):
        if any(self.spool.glob("*.spool")):
            return False
        runs = self.runs()
        seen = {rank["rank"] for run in runs for rank in run["ranks"]}
        return seen == ranks and all(run["state"] != "running" for run in runs)

    def results(self):
        results = []
        for run in self.runs():
            name = run["run_id"]
            results.append({
                "run": run,
                "show": json.loads(self.ranklog("show", name, "--json")),
                "rows": [json.loads(line) for line in self.ranklog("export", name).splitlines()],
                "raw": [json.loads(line) for line in self.ranklog("export", name, "--raw").splitlines()],
            })
        return results

    def close(self):
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANKLOG_", "WANDB_", "SLURM_"))}
    return {**kept, **{name: str(value) for name, value in more.items()}}


class Rank:
    """A rank's process."""

    def __init__(self, programs, job, rank, node, first_of_node, ranks_of_node):
        self.rank = rank
        self.children = set()
        self.process = subprocess.Popen(
            [programs.model_rank], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=clean_environment(
                RANK=rank, LOCAL_RANK=rank - first_of_node, WORLD_SIZE=job["ranks"], LOCAL_WORLD_SIZE=ranks_of_node,
                GROUP_RANK=node.number, RANKLOG_RUN_ID="job", RANKLOG_RESUME="allow", RANKLOG_PROJECT="model", RANKLOG_NAME="the job",
                RANKLOG_NODE=f"node{node.number}", RANKLOG_ADDRESS=f"unix:{node.socket}", RANKLOG_SPOOL_DIR=node.spool,
                RANKLOG_START_DAEMON=0, RANKLOG_FINISH_TIMEOUT_MS=1000 * PATIENCE, RANKLOG_DESTINATIONS="local", RANKLOG_LOG_STRATEGY=job["strategy"],
                RANKLOG_RANK_STATISTICS=";".join(job["statistics"])))

    def do(self, command):
        """The answer of model_rank; None if the process ended."""
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self.process.wait()
        return None

    def settle(self):
        for who in [{}, *({"child": child} for child in self.children)]:
            answer = self.do({"op": "flush", "seconds": PATIENCE, **who})
            if answer is None or not answer.get("ok", False):
                raise Failure(f"rank {self.rank} {who}: Flush() was not durable: {answer}")
        return {"ok": True}

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def first_of(job, node):
    """The first rank of a node; for the node after the last one, the number of ranks."""
    return job["ranks"] * node // job["nodes"]


def node_of(job, rank):
    return max(node for node in range(job["nodes"]) if first_of(job, node) <= rank)


def play(programs, job, folder):
    """Returns one answer for each act, and the output of the nodes' commands about all runs."""
    folder = pathlib.Path(folder)
    nodes = [Node(programs, folder, number) for number in range(job["nodes"])]
    ranks = {}
    answers = []
    try:
        for node in nodes:
            node.start_daemon()
        for act in job["acts"]:
            answers.append(play_act(programs, job, nodes, ranks, act))
        return answers, [result for node in nodes for result in node.results()]
    finally:
        for rank in ranks.values():
            rank.close()
        for node in nodes:
            node.close()


def play_act(programs, job, nodes, ranks, act):
    if act["op"] == "restart_daemon":
        node = nodes[act["node"]]
        node.close()
        node.start_daemon()
    elif act["op"] == "await_end":
        for node in nodes:
            mine = set(range(first_of(job, node.number), first_of(job, node.number + 1)))
            node.wait("all is in the store and all runs have ended", lambda node=node, mine=mine: node.at_rest(mine))
    elif act["op"] == "start":
        number = node_of(job, act["rank"])
        first = first_of(job, number)
        if act["rank"] in ranks:
            ranks[act["rank"]].close()
        ranks[act["rank"]] = Rank(programs, job, act["rank"], nodes[number], first, first_of(job, number + 1) - first)
    elif act["op"] == "settle":
        return ranks[act["rank"]].settle()
    else:
        rank = ranks[act["rank"]]
        answer = rank.do({name: value for name, value in act.items() if name != "rank"})
        if act["op"] == "fork":
            rank.children.add(act["as"])
        if "child" in act and (answer is None or answer.get("gone")):
            rank.children.discard(act["child"])
        return answer
    return None

"""The runs of a job as the documents describe them. Each rule has a comment that quotes its source.

The model takes the acts of a job one by one, and returns what each call must return. Then it has what the store must have. It
shares no code with the programs, and does not depend on how they work.

While a ring is new to the daemon (its first rows are not yet durable), a step may close before they arrive. So these rows may be
late. If they are the run's own, the other ranks' part in their steps may be late, too. Row.may_be_late marks such rows; the judge
accepts both results if late rows are counted.
"""

import dataclasses
import itertools
import math
import platform
import re

FIGURES = ["mean", "min", "max", "std", "argmin", "argmax"]


@dataclasses.dataclass
class Row:
    seq: int
    step: int
    values: dict
    order: int  # among all calls of the job
    ring: "Ring"
    time: float = 0.0  # from the store
    may_be_late: bool = False
    is_late: bool = False


@dataclasses.dataclass
class Ring:
    rank: int
    attempt: int
    child: int | None
    rows: list = dataclasses.field(default_factory=list)
    known: bool = False  # a daemon certainly knows it
    watched: bool = False  # the present daemon certainly watches its process
    rows_before: int = -1  # number of rows when the daemon was killed; -1: it was not
    least: int = 0  # the smallest step that its next row may give
    lent_rows: int = 0  # number of rows when its thread got it
    lent_step: int = 0

    def lend(self, step):
        self.lent_rows, self.lent_step, self.least = len(self.rows), step, max(self.least, step)
        return self

    def least_of_thread(self):
        return self.least if len(self.rows) > self.lent_rows else self.lent_step


@dataclasses.dataclass
class Update:
    kind: str
    rank: int
    fields: dict
    before_step: int  # rows of this step and above come later
    attempt: int


class Process:
    """One start of a rank, with its threads and forked children."""

    def __init__(self, rank, attempt):
        self.rank, self.attempt = rank, attempt
        self.open = 0
        self.open_has_rows = False
        self.rings = {}  # by (child, thread)
        self.idle = []  # rings of threads that ended
        self.left = {}  # earlier rings, by (child, thread)
        self.ended = {}  # by child; None is the process itself: ("finish", code), ("exit", code) or ("crash", 0)


class Model:
    def __init__(self, job):
        self.job = job
        self.attempt = 0
        self.processes = {}
        self.all_processes = []
        self.rings = []
        self.updates = []
        self.definitions = {}
        self.losses = {rank: {"values": 0, "step_behind": 0} for rank in range(job["ranks"])}
        self.calls = 0
        self.last_steps = {}  # last step of each run at the end of the last attempt, by primary rank

    # ---- The calls -----------------------------------------------------------------------------------------------------

    def act(self, act, durable=True):
        """Returns what the call must return; None: any result is right. `durable`: the result of a settle."""
        self.calls += 1
        op = act["op"]
        if op == "start":
            self.processes[act["rank"]] = Process(act["rank"], self.attempt)
            self.all_processes.append(self.processes[act["rank"]])
            # ranklog.proto: "0 for the ring that Init() made". So the daemon knows a rank that has only started.
            self.ring(act["rank"], None, 0)
        elif op == "await_end":
            for primary in self.primaries():
                rows = self.rows_of_run(primary)
                self.last_steps[primary] = max([row.step for row in rows if not row.is_late], default=-1)
            self.attempt += 1
        elif op == "settle":
            # run.h: "Waits until all rows logged so far are durable"
            process = self.processes[act["rank"]]
            for (child, _), ring in process.rings.items():
                if child in process.ended:
                    continue  # it is gone, and may never have connected
                ring.known = ring.known or durable
                # Without new rows it does not wait for the next daemon.
                ring.watched = ring.watched or (durable and len(ring.rows) > ring.rows_before)
        elif op == "restart_daemon":
            for ring in self.rings:
                if self.node_of(ring.rank) == act["node"]:
                    ring.watched, ring.rows_before = False, len(ring.rows)
        elif op in ("log", "summary", "config", "define"):
            return getattr(self, op)(self.processes[act["rank"]], act)
        elif op == "end_thread":
            process = self.processes[act["rank"]]
            ring = process.rings.pop((None, act["thread"]), None)
            if ring is not None:
                process.idle += [*process.left.pop((None, act["thread"]), []), ring]
        elif op in ("finish", "exit", "crash"):
            process = self.processes[act["rank"]]
            process.ended.setdefault(act.get("child"), (op, act["code"]))
            if op == "finish":
                return True  # run.h: "Waits until all rows are durable"
        return None

    def ring(self, rank, child, thread):
        # run.h: "Each thread that logs has its own ring. A forked child may continue to use the run. Its first call creates a ring
        # and a stream for it"
        process = self.processes[rank]
        if (child, thread) not in process.rings:
            if child is None and process.idle:
                process.rings[child, thread] = process.idle.pop().lend(0)
            else:
                self.rings.append(Ring(rank, process.attempt, child))
                process.rings[child, thread] = self.rings[-1]
        return process.rings[child, thread]

    def other_ring(self, process, who, step):
        # spool_placement.md: "it gets another ring, and an idle ring ends."
        before = process.rings[who]
        ring = next((ring for ring in reversed(process.idle) if ring.least <= step), None)
        if ring is not None:
            process.idle.remove(ring)
        else:
            self.rings.append(Ring(process.rank, process.attempt, who[0]))
            ring = self.rings[-1]
            del process.idle[:1]
        process.left.setdefault(who, []).append(before)
        process.rings[who] = ring.lend(before.least_of_thread())
        return ring

    def log(self, process, act):
        ring = self.ring(process.rank, act.get("child"), act.get("thread", 0))
        # run.h: "With a step: the steps of a thread never decrease. A row with the same step merges into it; a row with a smaller
        # step is refused. So is a row with the same step if the thread has logged a row without a step since, because that row closes its step."
        # spool_placement.md: "If the thread logs a smaller step than the last one in the ring, it gets another ring". run.h: "Without a step: the row
        # merges into the open step, which is the largest step that any thread has given. It also closes that step: the next row without a step takes
        # the next one." "The threads of a process and its forked children share the open step."
        step = act.get("step", process.open)
        if ring.least_of_thread() <= step < ring.least:
            ring = self.other_ring(process, (act.get("child"), act.get("thread", 0)), step)
        if step < ring.least:
            self.losses[process.rank]["step_behind"] += 1
            return False
        ring.least = step if "step" in act else step + 1
        is_behind = step < process.open
        if "step" not in act or step >= process.open:
            process.open = ring.least
            process.open_has_rows = "step" in act
        values = {}
        for key, value in act["row"]:
            # value.h: "these keys cannot be logged"; run.h: "A value that cannot be logged is left out, and the rest of the row is logged".
            if key == "_step":
                self.losses[process.rank]["values"] += 1
                continue
            values[key] = float(value["number"]) if isinstance(value, dict) else value  # the last value of a key counts
        row = Row(len(ring.rows) + 1, step, values, self.calls, ring)
        # run.h: "If a thread logs nothing while others continue, its steps wait for one second."
        row.may_be_late = not ring.known or is_behind
        ring.rows.append(row)
        return True

    def update(self, kind, process, act):
        self.ring(process.rank, act.get("child"), act.get("thread", 0))
        before = process.open + 1 if process.open_has_rows else process.open
        before = max(before, self.last_steps.get(self.primary_of(process.rank), -1) + 1)
        self.updates.append(Update(kind, process.rank, act["fields"], before, process.attempt))
        return True

    def summary(self, process, act):
        return self.update("summary", process, act)

    def config(self, process, act):
        return self.update("config", process, act)

    def define(self, process, act):
        self.ring(process.rank, act.get("child"), act.get("thread", 0))
        # run.h: "or all metrics with that prefix if `name` ends in "*""; metric_table.h: "A merge ORs the flags, joins the
        # summaries, and replaces the step metric and the goal if given"
        known = self.definitions.setdefault(self.primary_of(process.rank), {})
        definition = known.setdefault(act["name"], {"summary": set(), "goal": ""})
        definition["summary"] |= set(act["options"].get("summary", []))
        definition["goal"] = act["options"].get("goal") or definition["goal"]
        return True

    # ---- Which runs there are ------------------------------------------------------------------------------------------

    def first_of(self, node):
        return self.job["ranks"] * node // self.job["nodes"]

    def node_of(self, rank):
        return max(node for node in range(self.job["nodes"]) if self.first_of(node) <= rank)

    def primary_of(self, rank):
        # client/README.md: main: "the rows of rank 0"; node: "the rows of the node's first rank"; all: "the rows of that rank".
        # model/run.h: "Part of a `main` run whose rank 0 is on another node: kept in the store, not delivered."
        return rank if self.job["strategy"] == "all" else self.first_of(self.node_of(rank))

    def is_primary(self, rank):
        return self.primary_of(rank) == rank

    def primaries(self):
        return sorted({self.primary_of(rank) for rank in range(self.job["ranks"])})

    def ranks_of_run(self, primary):
        return [rank for rank in range(self.job["ranks"]) if self.primary_of(rank) == primary]

    def run_id(self, primary):
        # strategy.h, the table of runs, ids and names
        return "job" if self.job["strategy"] == "main" and primary == 0 else f"job-{primary}"

    def name(self, primary):
        return "the job" if self.job["strategy"] == "main" else f"rank-{primary}"

    def local_only(self, primary):
        return self.job["strategy"] == "main" and primary != 0

    def figures(self, metric):
        # statistics.md: "The first rule that matches a metric counts"; "A metric that no rule matches gets the names without a glob, or
        # else the default", `mean,min,max`; "`*` matches any text, including slashes". model/rank_statistics.h: "The strategy `all`
        # has none."
        if self.job["strategy"] == "all":
            return []
        rules = [item.rsplit("=", 1) for item in self.job["statistics"] if "=" in item]
        wanted = [item for item in self.job["statistics"] if "=" not in item] or ["mean", "min", "max"]
        for glob, figures in rules:
            if re.fullmatch(re.escape(glob).replace(r"\*", ".*"), metric, re.DOTALL):
                wanted = figures.split(",")
                break
        return [name for name in FIGURES if name in wanted]

    def has_figures(self):
        return self.job["strategy"] != "all" and self.job["statistics"] != ["none"]

    # ---- What is in them -----------------------------------------------------------------------------------------------

    def rings_of(self, rank):
        return [ring for ring in self.rings if ring.rank == rank]

    def rows_of(self, rank):
        return sorted((row for ring in self.rings_of(rank) for row in ring.rows), key=lambda row: row.order)

    def rows_of_run(self, primary):
        return self.rows_of(primary)

    def rewound_to(self, primary):
        """The step at which the job's second start continued: without rows that may be late, and with them. None: no row."""
        # run.h: "If the process gives a step that the run already has, as after a checkpoint, the run is rewound to that step. From
        # then on, the run consists of the new rows. Rows of an earlier start at this step and above are hidden."
        again = [row for row in self.rows_of_run(primary) if row.ring.attempt > 0 and row.values]
        sure = [row.step for row in again if not row.may_be_late]
        return min(sure, default=None), min((row.step for row in again), default=None)

    def ended_as(self, primary):
        """The possible ends of the run: state, exit code (None: any), whether there is a reason."""
        # service/json.md: "`failed` (exit code not 0), `crashed`"; runs.md: "If a rank was restarted, its last process decides how
        # the run ends"; spool_format.md: "In a ring of a forked child, `finished` is 1 from the start. A helper process is often killed
        # when it is done, so its end has no meaning for the run". live_run.h: "the primary's code comes first, then the lowest rank's"
        last = {process.rank: process for process in self.all_processes if self.primary_of(process.rank) == primary}
        ends = [last[primary], *(process for rank, process in sorted(last.items()) if rank != primary)]
        return {self.ended_by(how) for how in itertools.product(*(self.ends_of(process) for process in ends))}

    @staticmethod
    def ends_of(process):
        # service/runs.md, "When a rank dies": exit(5) is "failed, exit code 5". A process counts as crashed if it ended before the
        # daemon saw it, or if the kernel does not report its end.
        how, code = process.ended[None]
        if how != "exit":
            return [(how, code)]
        sure = process.rings[None, 0].watched and tuple(map(int, platform.release().split(".")[:2])) >= (6, 15)
        return [(how, code)] if sure else [(how, code), ("crash", 0)]

    @staticmethod
    def ended_by(ends):
        if any(how == "crash" for how, _ in ends):
            return "crashed", None, True
        failed = [(how, code) for how, code in ends if code != 0]
        return ("failed", failed[0][1], failed[0][0] == "exit") if failed else ("finished", 0, False)

    def merged_updates(self, kind, primary):
        # run_config.h: "merged by top-level key. For each key, the latest value of a primary stream is used. Values of other ranks are
        # used only for keys that no primary set."
        merged = {}
        for own in (False, True):
            for update in self.updates:
                if update.kind == kind and self.primary_of(update.rank) == primary and (update.rank == primary) == own:
                    merged.update({key: (value, update.before_step) for key, value in update.fields.items()})
        return merged

    def run_config(self, primary):
        config = {key: value for key, (value, _) in self.merged_updates("config", primary).items()}
        # run_config.h: "rank, local_rank, world_size, node": "those of the primary rank"; "If a rank set a key of that name, its value
        # is kept"
        node = self.node_of(primary)
        own = {"rank": primary, "local_rank": primary - self.first_of(node), "world_size": self.job["ranks"], "node": f"node{node}"}
        if self.has_figures():
            own["ranklog"] = {"statistics_over": {"ranks": self.ranks_of_run(primary), "of": self.job["ranks"], "node": f"node{node}"}}
        return {**own, **config}

    def definition(self, primary, key):
        # metric_table.h: "the one of that name, or else the one with the longest matching prefix (never for keys that start with "_")"
        known = self.definitions.get(primary, {})
        if key in known:
            return known[key]
        globs = [name for name in known if name.endswith("*") and key.startswith(name[:-1])]
        return known[max(globs, key=len)] if globs and not key.startswith("_") else None

    def run_summary(self, primary, lines):
        """The summary of a run with these lines: [(step, {key: value})]."""
        summary = {}
        seen = {}
        for step, values in lines:
            for key, value in values.items():
                seen.setdefault(key, []).append((step, value))
        for key, found in seen.items():
            shown = self.shown([value for _, value in found], self.definition(primary, key))
            if shown is not None:
                summary[key] = shown
        for key, (value, before_step) in self.merged_updates("summary", primary).items():
            later = key in summary and seen[key][-1][0] >= before_step
            if not later:
                summary[key] = value
        return summary

    @staticmethod
    def shown(values, definition):
        # run_summary.h: "no option, or none of these  the latest value"; "min max mean last first  an object with these members"; "best
        # with a goal: member "best", the minimum or the maximum; without a goal: no effect"; "none  no entry"; "min, max and mean use
        # only numbers; one NaN makes all three NaN." "Latest, last and first also use texts."
        options = definition["summary"] if definition else set()
        if "none" in options:
            return None
        numbers = [value for value in values if not isinstance(value, str)]
        nan = any(math.isnan(number) for number in numbers)
        figures = {"last": values[-1], "first": values[0]}
        if numbers:
            figures["min"] = math.nan if nan else min(numbers)
            figures["max"] = math.nan if nan else max(numbers)
            figures["mean"] = mean(numbers)
        wanted = options & {"min", "max", "mean", "last", "first"}
        shown = {name: figures[name] for name in wanted if name in figures}
        if "best" in options and definition["goal"]:
            wanted = wanted | {"best"}
            if numbers:
                shown["best"] = figures["min" if definition["goal"] == "minimize" else "max"]
        if not wanted:
            return values[-1]
        return shown or None


def mean(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total / len(numbers)


def statistics(by_rank, figures):
    """The statistics of one value from each rank: over the finite values, or NaN if there is none."""
    # run.h: "NaN and infinities are valid values": "Statistics over ranks exclude them. A statistic is NaN if no rank has a finite
    # value."
    finite = {rank: value for rank, value in by_rank.items() if math.isfinite(value)}
    if not finite:
        return {name: math.nan for name in figures}
    average = mean(finite.values())
    low, high = min(finite.values()), max(finite.values())
    result = {
        "mean": average,
        "min": low,
        "max": high,
        "std": math.sqrt(mean([(value - average) ** 2 for value in finite.values()])),
        "argmin": min(rank for rank, value in finite.items() if value == low),
        "argmax": min(rank for rank, value in finite.items() if value == high),
    }
    return {name: result[name] for name in figures}

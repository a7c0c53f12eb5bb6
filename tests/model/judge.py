"""Compares the results of the programs with the model. Every difference is a line of text."""

import collections
import itertools
import math

import model

CLOCKS = 0.05  # seconds by which the clocks of two rings of a rank may differ
MOST_CHOICES = 4096  # limit for the sets of rows that may be late at one step; the smallest sets are tried first


def same(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, bool) or isinstance(b, bool) or isinstance(a, str) or isinstance(b, str):
        return type(a) is type(b) and a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b


def close(a, b):
    return same(a, b) or (math.isfinite(a) and math.isfinite(b) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12))


class Judge:
    def __init__(self, job, answers, results):
        self.job = job
        self.wrong = []
        self.model = model.Model(job)
        for act, answer in zip(job["acts"], answers):
            got = None if answer is None else answer.get("ok")
            expected = self.model.act(act, durable=got is not False)
            if expected is not None and got != expected:
                self.wrong.append(f"{act}: answered {answer}, expected {expected}")
        self.runs(results)

    def check(self, what, got, expected):
        if not same(got, expected):
            self.wrong.append(f"{what} is {got}, expected {expected}")

    def runs(self, results):
        by_id = {result["run"]["run_id"]: result for result in results}
        self.check("the runs", sorted(by_id), sorted(self.model.run_id(primary) for primary in self.model.primaries()))
        for primary in self.model.primaries():
            result = by_id.get(self.model.run_id(primary))
            if result is not None:
                Run(self, primary, result).judge()


class Run:
    def __init__(self, judge, primary, result):
        self.judge_of_all, self.primary = judge, primary
        self.model, self.check = judge.model, lambda what, got, expected: judge.check(f"{result['run']['run_id']}: {what}", got, expected)
        self.wrong = lambda text: judge.wrong.append(f"{result['run']['run_id']}: {text}")
        self.run, self.show, self.rows, self.raw = result["run"], result["show"], result["rows"], result["raw"]
        self.ranks = self.model.ranks_of_run(primary)
        self.rewound_to, self.rewound_to_at_least = self.model.rewound_to(primary)
        self.late = {rank["rank"]: rank["late_rows"] for rank in self.run["ranks"]}
        self.differed = set()  # the metrics with statistics so far
        self.missing = collections.Counter()  # rows that are not in the run, by rank: at least this many must be late

    def judge(self):
        self.judge_run()
        self.judge_raw()
        self.judge_rows()
        self.judge_late()
        lines = [(row["_step"], {key: value for key, value in row.items() if not key.startswith("_")}) for row in self.rows]
        self.judge_documents(lines)
        self.judge_metrics(lines)

    def judge_run(self):
        run, model_ = self.run, self.model
        ends = model_.ended_as(self.primary)
        said = (run["state"], None if run["state"] == "crashed" else run["exit_code"], bool(run["reason"]))
        if said not in ends:
            self.wrong(f"state, exit code, whether there is a reason: {said}, expected one of {sorted(ends, key=str)}")
        self.check("name", run["name"], model_.name(self.primary))
        self.check("group", run["group"], "job")
        self.check("project", run["project"], "model")
        self.check("strategy", run["strategy"], self.judge_of_all.job["strategy"])
        self.check("local_only", run["local_only"], model_.local_only(self.primary))
        self.judge_replays()
        self.check("last_step", run["last_step"], self.rows[-1]["_step"] if self.rows else -1)
        self.check("the ranks", [rank["rank"] for rank in run["ranks"]], self.ranks)
        self.check("late_rows", run["late_rows"], sum(self.late.values()))
        for rank in run["ranks"]:
            who = f"rank {rank['rank']}: "
            losses = {reason: count for reason, count in rank["losses"].items() if count > 0}
            expected = {reason: count for reason, count in model_.losses[rank["rank"]].items() if count > 0}
            self.check(who + "rows", rank["rows"], len(model_.rows_of(rank["rank"])))
            self.check(who + "losses", losses, expected)
            # service/json.md: `lost` counts rows; the row of a value that was left out is there.
            self.check(who + "lost", rank["lost"], sum(expected.values()) - expected.get("values", 0))

    # service/runs.md: "`rows` of a run counts the rows for its trackers"; "Rows of a new attempt at steps that the run already has are *replays*"
    def judge_replays(self):
        if self.rewound_to is None and self.rewound_to_at_least is None:
            self.check("rows", self.run["rows"], len(self.rows))
            self.check("replayed_rows", self.run["replayed_rows"], 0)
        elif not any(row.may_be_late for row in self.model.rows_of(self.primary)):
            first = {row.step for row in self.model.rows_of(self.primary) if row.ring.attempt == 0}
            again = {row.step for row in self.model.rows_of(self.primary) if row.ring.attempt > 0}
            self.check("rows", self.run["rows"], len(first) + len([step for step in again if step > max(first, default=-1)]))
            others = [row for rank in self.ranks if rank != self.primary and self.model.has_figures() for row in self.model.rows_of(rank)]
            behind = [row for row in others if row.ring.attempt > 0 and row.step < self.rewound_to and row.step <= max(first, default=-1)]
            self.check("replayed_rows", self.run["replayed_rows"],
                       len([step for step in again if step <= max(first, default=-1)]) + len(behind))

    # service/json.md: "`export RUN --raw`: a line per row of a rank: `rank`, `stream`, `seq`, `step`, `timestamp`, `values`"; every row for
    # which Log() returned true is there, in the order of its thread.
    def judge_raw(self):
        got = collections.defaultdict(list)
        for row in self.raw:
            got[row["rank"], row["stream"]].append((row["seq"], row["step"], shown(row["values"]), row["timestamp"]))

        def known(ring):
            return [(row.seq, row.step, shown(row.values)) for row in ring.rows]

        left = [ring for rank in self.ranks for ring in self.model.rings_of(rank) if ring.rows]
        for (rank, stream), rows in got.items():
            ring = next((ring for ring in left if ring.rank == rank and known(ring) == [row[:3] for row in rows]), None)
            if ring is None:
                self.wrong(f"rank {rank}: stream {stream} has rows that no ring has: {[row[:3] for row in rows]}")
                continue
            left.remove(ring)
            for row, (_, _, _, time) in zip(ring.rows, rows):
                row.time = time
        for rank in self.ranks:
            rows = self.model.rows_of(rank)
            for before, after in zip(rows, rows[1:]):
                if after.time < before.time - CLOCKS and not left:
                    self.wrong(f"rank {rank}: {after.values} came after {before.values}, with a time {before.time - after.time} s before it")
        for ring in left:
            self.wrong(f"rank {ring.rank}: no stream has the rows {known(ring)}")

    # ---- The run's rows ------------------------------------------------------------------------------------------------

    def judge_rows(self):
        own = self.by_step(self.primary)
        steps = [row["_step"] for row in self.rows]
        if steps != sorted(set(steps)):
            self.wrong(f"the steps do not grow: {steps}")
        lines = {row["_step"]: row for row in self.rows}
        for step in sorted(own.keys() | lines.keys()):
            in_time = [row for row in own.get(step, []) if not row.is_late]
            line = lines.get(step)
            if self.rewound_to_at_least is not None and self.rewound_to_at_least <= step < (self.rewound_to or step + 1):
                continue  # whether the run was rewound behind it depends on a row that may be late
            if line is None:
                self.missing[self.primary] += len(own[step])
                if any(not row.may_be_late for row in in_time):
                    self.wrong(f"step {step} is missing; rank {self.primary} logged {[row.values for row in in_time]}")
                continue
            if step not in own:
                self.wrong(f"step {step} is there, and rank {self.primary} did not log it: {line}")
                continue
            self.missing[self.primary] += len(own[step]) - len(in_time)
            self.judge_row(step, in_time, line)

    # Ordered by the rows' times, which are not exact to the microsecond for two threads.
    def by_step(self, rank):
        rows = collections.defaultdict(list)
        is_hidden = lambda row: rank == self.primary and row.ring.attempt == 0 and self.rewound_to is not None and row.step >= self.rewound_to
        for row in sorted(self.model.rows_of(rank), key=lambda row: (row.time, row.order)):
            if not is_hidden(row):
                rows[row.step].append(row)
        return rows

    # run.h: "A row with the same step merges into it"; "The last value counts".
    def judge_row(self, step, rows, line):
        values = {key: value for key, value in line.items() if not key.startswith("_")}
        primary_keys = {key for row in rows for key in row.values}
        own = {key: value for key, value in values.items() if key in primary_keys or not is_statistic(key)}
        best = None
        for left_out in choices([row for row in rows if row.may_be_late]):
            merged = {}
            for row in rows:
                if row not in left_out:
                    merged.update(row.values)
            if same(merged, own):
                best = left_out
                break
        if best is None:
            logged = [row.values for row in rows]
            self.wrong(f"step {step} has {own}; rank {self.primary} logged {logged}")
            return
        self.missing[self.primary] += len(best)
        # Rows of a new ring of the run may have arrived after the step closed for the other ranks' rows.
        self.judge_statistics(step, own, {key: value for key, value in values.items() if key not in own},
                              any(row.may_be_late for row in rows), max(row.ring.attempt for row in rows))

    # statistics.md: "the daemon adds statistics over the ranks of the node to the run". Rows of other ranks from an earlier attempt are
    # used up.
    def judge_statistics(self, step, own, shown_figures, others_may_be_late, attempt):
        parts = {self.primary: [(0, own)]}
        for rank in self.ranks:
            if rank == self.primary:
                continue
            rows = [row for row in self.by_step(rank)[step] if row.ring.attempt == attempt and not row.is_late]
            options = []
            for left_out in choices([row for row in rows if row.may_be_late or others_may_be_late]):
                merged = {}
                for row in rows:
                    if row not in left_out:
                        # run_aggregator.h: "Texts of other ranks are left out."
                        merged.update({key: value for key, value in row.values.items() if not isinstance(value, str)})
                options.append((len(left_out), merged))
            parts[rank] = options
        ranks = list(parts)
        tried = sorted(itertools.islice(itertools.product(*(parts[rank] for rank in ranks)), MOST_CHOICES),
                       key=lambda chosen: sum(count for count, _ in chosen))
        for chosen in tried:
            if self.fits(shown_figures, self.figures_of(own, {rank: part for rank, (_, part) in zip(ranks, chosen)}, shown_figures)):
                self.differed.update(key.split("/", 1)[1] for key in shown_figures)
                for rank, (count, _) in zip(ranks, chosen):
                    self.missing[rank] += count
                return
        due = self.figures_of(own, {rank: options[0][1] for rank, options in parts.items()}, shown_figures)
        logged = {rank: options[0][1] for rank, options in parts.items()}
        self.wrong(f"step {step} has the statistics {shown_figures}, expected {due}; logged by rank: {logged}")

    # statistics.md: "A metric has statistics only if its values have differed between ranks." Rows that the export hides after a rewind
    # may have differed.
    def figures_of(self, own, parts, shown_figures):
        was_rewound = self.rewound_to is not None or self.rewound_to_at_least is not None
        shown_metrics = {key.split("/", 1)[1] for key in shown_figures}
        due = {}
        for key in {key for part in parts.values() for key in part}:
            by_rank = {rank: part[key] for rank, part in parts.items() if key in part and not isinstance(part[key], str)}
            differs = len({"nan" if math.isnan(value) else value for value in by_rank.values()}) > 1
            differs = differs or key in self.differed or (was_rewound and key in shown_metrics)
            if len(by_rank) >= 2 and differs:
                due.update({f"rank_{name}/{key}": value for name, value in model.statistics(by_rank, self.model.figures(key)).items()})
        return {key: value for key, value in due.items() if key not in own}

    @staticmethod
    def fits(got, due):
        return got.keys() == due.keys() and all(close(got[key], due[key]) for key in got)

    # service/losses.md: "Late": "the row came after its step was closed: it is in the store, not in the run." Every row that is not in
    # the run must be counted. run_aggregator.h: other ranks' rows are remembered "until all streams have ended": the ring of a forked
    # child of the primary may be found after that.
    def judge_late(self):
        risky = any(row.may_be_late for row in self.model.rows_of(self.primary))
        unseen = any(not ring.known for ring in self.model.rings_of(self.primary))
        for rank in self.ranks:
            rows = self.model.rows_of(rank)
            sure = sum(row.is_late for row in rows)
            most = sum(row.is_late or row.may_be_late or (risky and rank != self.primary) for row in rows)
            missing = 0 if unseen and rank != self.primary else self.missing[rank]
            least = missing if rank == self.primary else missing + sure
            if not least <= self.late.get(rank, 0) <= most:
                self.wrong(f"rank {rank}: {self.late.get(rank, 0)} rows are counted as late, expected {least} to {most}")

    # ---- What show prints ----------------------------------------------------------------------------------------------

    def judge_documents(self, lines):
        self.check("config", self.show["config"], self.model.run_config(self.primary))
        got = dict(self.show["summary"])
        if self.rows:
            self.check("summary: _step", got.pop("_step", None), self.rows[-1]["_step"])
            self.check("summary: _timestamp", got.pop("_timestamp", None), self.rows[-1]["_timestamp"])
        due = self.model.run_summary(self.primary, lines)
        for key in sorted(got.keys() | due.keys()):
            if key not in got or key not in due or not alike(got[key], due[key]):
                self.wrong(f"summary: {key} is {got.get(key, 'absent')}, expected {due.get(key, 'absent')}")

    # service/json.md: "Each metric has `count`, `last`, `step` (of `last`), `min` and `max` of its finite values, and `not_finite`"
    def judge_metrics(self, lines):
        due = {}
        for step, values in lines:
            for key, value in values.items():
                if isinstance(value, str):
                    continue
                metric = due.setdefault(key, {"count": 0, "not_finite": 0})
                if not math.isfinite(value):
                    metric["not_finite"] += 1
                    continue
                metric["count"] += 1
                metric |= {"last": value, "step": step, "min": min(value, metric.get("min", value)),
                           "max": max(value, metric.get("max", value))}
        for key in sorted(due.keys() | self.show["metrics"].keys()):
            self.check(f"metrics: {key}", self.show["metrics"].get(key), due.get(key))


def is_statistic(key):
    return key.startswith(tuple(f"rank_{name}/" for name in model.FIGURES))


def alike(got, due):
    if isinstance(got, dict) and isinstance(due, dict):
        return got.keys() == due.keys() and all(alike(got[key], due[key]) for key in got)
    if isinstance(got, (int, float)) and isinstance(due, (int, float)) and not isinstance(got, bool) and not isinstance(due, bool):
        return close(got, due)
    return same(got, due)


def shown(values):
    """The values in a form in which NaN equals NaN, and 1 equals 1.0."""
    return {key: value if isinstance(value, str) else "NaN" if math.isnan(value) else float(value) for key, value in values.items()}


def choices(rows):
    """The sets of `rows` that may be missing, smallest first."""
    return itertools.islice(itertools.chain.from_iterable(itertools.combinations(rows, count) for count in range(len(rows) + 1)),
                            MOST_CHOICES)

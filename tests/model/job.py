"""Random jobs: the acts of all processes of all ranks, in one order."""

import random

KEYS = ["loss", "acc", "x/y", "lr"]
TEXT_KEYS = ["note", "loss"]
FIGURES = ["mean", "min", "max", "std", "argmin", "argmax"]
ODD = ["nan", "inf", "-inf"]


def make(seed):
    """The job of a seed: a dict for JSON. Its `acts` are commands of model_rank.cc, each with its rank, and these acts of
    the player: start (a rank's process), end_daemon and start_daemon of a node, settle (waits until a rank's rows are
    durable and all its rings are attached), await_end (of all runs)."""
    return Maker(random.Random(seed), seed).make()


def random_rule(rng):
    """A rule GLOB=FIGURES, or the figures for all other metrics."""
    figures = ["none"] if rng.random() < 0.3 else rng.sample(FIGURES, rng.randint(1, 3))
    glob = rng.choice(KEYS + ["l*", "*c*", "x/*", "*y"])
    return f"{glob}={','.join(figures)}"


class Maker:
    def __init__(self, rng, seed):
        self.rng = rng
        self.ranks = rng.choice([1, 1, 2, 2, 3, 4, 5, 6])
        self.nodes = 2 if self.ranks > 1 and rng.random() < 0.25 else 1
        self.job = {
            "seed": seed,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "strategy": rng.choice(["main", "main", "node", "all"]),
            "statistics": rng.choice([[], [], ["none"], rng.sample(FIGURES, rng.randint(1, 4)), [random_rule(rng) for _ in range(3)]]),
            "acts": [],
        }
        self.threads = rng.random() < 0.4
        self.forks = rng.random() < 0.3
        self.hasty = rng.random() < 0.3  # new rings log before the daemon knows them
        self.explicit = rng.choice([0.0, 0.5, 1.0])  # share of rows with a step
        self.texts = rng.choice([0.0, 0.1])
        self.odd = rng.choice([0.0, 0.1])
        self.setters = {}  # by key of the config or the summary: the ring that set it last, until a settle

    def act(self, rank, **command):
        self.job["acts"].append({"rank": rank, **command})

    # The state of a rank's processes that the maker needs.
    def start(self, rank, first_step):
        self.members[rank] = [{}]  # "child" and "thread" of its threads that live
        self.children[rank] = 0
        self.named[rank] = 0
        self.steps[rank] = first_step
        self.act(rank, op="start")
        self.act(rank, op="settle")

    def value(self, key):
        if key in TEXT_KEYS and self.rng.random() < (1 if key == "note" else self.texts):
            return self.rng.choice(["red", "green", "blue"])
        if self.rng.random() < self.odd:
            return {"number": self.rng.choice(ODD)}
        if key == "lr" and self.rng.random() < 0.9:
            return 0.5  # equal on most ranks
        return self.rng.randint(-50, 50) / self.rng.choice([1, 4, 7])

    def row(self):
        keys = self.rng.sample(KEYS, self.rng.randint(1, 3))
        if self.rng.random() < self.texts:
            keys.append("note")
        if self.rng.random() < 0.03:
            keys.append(keys[0])
        if self.rng.random() < 0.02 and len(keys) > 1:  # a step without metrics has no row
            keys[0] = "_step"
        return [[key, self.value(key)] for key in keys]

    def log(self, rank, who):
        command = {"op": "log", "row": self.row()}
        if self.rng.random() < self.explicit:
            # About the rank's step. The model knows it exactly; rows below it are refused.
            self.steps[rank] += self.rng.choice([0, 0, 1, 1, 1, 2, 3]) if self.rng.random() < 0.97 else -2
            command["step"] = max(self.steps[rank], 0)
        else:
            self.steps[rank] += 1
        self.act(rank, **who, **command)

    def update(self, rank, who):
        op = self.rng.choice(["summary", "summary", "config", "define"])
        ring = (rank, who.get("child"), who.get("thread"))
        if op == "define":
            name = self.rng.choice(KEYS + ["x*", "l*", "note"])
            options = {"summary": self.rng.sample(["min", "max", "mean", "last", "first", "best", "none"], self.rng.randint(0, 2))}
            if self.rng.random() < 0.3:
                options["goal"] = self.rng.choice(["minimize", "maximize"])
            self.act(rank, **who, op=op, name=name, options=options)
            return
        keys = self.rng.sample(KEYS + ["best", "model"] if op == "summary" else ["lr", "model", "layers"], self.rng.randint(1, 2))
        # Values that two rings set at the same time have no order.
        for key in keys:
            other = self.setters.get((op, key))
            if other is not None and other != ring:
                self.act(other[0], op="settle")
            self.setters[op, key] = ring
        fields = {key: self.rng.choice([self.rng.randint(1, 9), self.rng.random(), "big", True]) for key in keys}
        if "model" in fields and self.rng.random() < 0.1:
            fields["model"] = "m" * self.rng.randint(1 << 20, 5 << 20)  # up to more than half of a ring
        self.act(rank, **who, op=op, fields=fields)

    def new_member(self, rank):
        members = self.members[rank]
        self.named[rank] += 1
        if self.forks and self.children[rank] < 2 and self.rng.random() < 0.6:
            who = {"child": self.named[rank]}
            self.act(rank, op="fork", **{"as": who["child"]})
            self.children[rank] += 1
        elif self.threads and len(members) < 4:
            who = {"thread": self.named[rank]}
        else:
            return
        members.append(who)
        if not self.hasty:
            # The thread gets a ring of its own, which the daemon knows before the first row.
            self.act(rank, **who, op="config", fields={f"member{self.named[rank]}": rank})
            self.act(rank, op="settle")

    def end_member(self, rank):
        members = self.members[rank]
        if len(members) < 2:
            return
        who = members.pop(self.rng.randrange(1, len(members)))
        if "thread" in who:
            self.act(rank, op="end_thread", **who)
        else:
            self.end_child(rank, who)

    def end_child(self, rank, who):
        self.children[rank] -= 1
        # The daemon takes what is left in the child's ring at some later time, after values that others set meanwhile.
        if (rank, who["child"], None) in self.setters.values():
            self.act(rank, op="settle")
        op = self.rng.choice(["finish", "exit", "crash"])
        self.act(rank, **who, op=op, code=0)
        if op == "finish":
            self.act(rank, **who, op="exit", code=0)

    def end(self, rank):
        for who in self.members[rank][1:]:
            if "child" in who:
                self.end_child(rank, who)
        how = self.rng.choices(["finish", "exit", "crash"], [8, 1, 1])[0]
        if how != "finish" and self.rng.random() < 0.8:
            self.act(rank, op="settle")
        self.act(rank, op=how, code=self.rng.choice([0, 0, 0, 0, 3]))
        if how == "finish":
            self.act(rank, op="exit", code=0)

    def attempt(self, first_step):
        self.members, self.children, self.named, self.steps = {}, {}, {}, {}
        for rank in self.rng.sample(range(self.ranks), self.ranks):
            self.start(rank, first_step)
        weights = {"log": 70, "update": 8, "new": 6, "end": 2, "settle": 3, "daemon": 0.5}
        skewed = [self.rng.choice([1, 1, 1, 3]) for _ in range(self.ranks)]
        for _ in range(self.rng.randint(5, 30) * self.ranks):
            rank = self.rng.choices(range(self.ranks), skewed)[0]
            who = self.rng.choice(self.members[rank])
            what = self.rng.choices(list(weights), list(weights.values()))[0]
            if what == "log":
                self.log(rank, who)
            elif what == "update":
                self.update(rank, who)
            elif what == "new":
                self.new_member(rank)
            elif what == "end":
                self.end_member(rank)
            elif what == "settle":
                self.act(rank, op="settle")
            else:
                self.job["acts"].append({"op": "restart_daemon", "node": self.rng.randrange(self.nodes)})
        for rank in self.rng.sample(range(self.ranks), self.ranks):
            self.end(rank)
        self.job["acts"].append({"op": "await_end"})

    def make(self):
        self.attempt(0)
        if self.rng.random() < 0.12:  # the job is started again under its run id
            self.setters = {}
            self.explicit = 1.0
            self.attempt(max(0, max(self.steps.values()) - self.rng.choice([0, 3, 10])))
        return self.job

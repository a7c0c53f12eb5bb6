"""The scenarios that the referee runs with the SDK and with Ranklog.

A scenario is a list of phases, which follow one another; the processes of a phase run at the same time. A process is a
list of calls, and what starts it: its rank, `resume`, `fork_from`, and the client, if it is not Ranklog. The SDK runs all processes of
a scenario; what the server then holds is what it should hold after Ranklog. Values "$nan", "$inf" and "$-inf" are the numbers.
"""

import dataclasses
import struct
import zlib

PROJECT = "interop"
ENTITY = "fake-team"


@dataclasses.dataclass
class Process:
    calls: list
    rank: int = 0
    resume: str = ""
    fork_from: str = ""
    # "sdk": also when the others are Ranklog's. "person": edits the run on the web page; `settings` is the edit
    client: str = ""
    alone: bool = False  # ends its process
    settings: dict = dataclasses.field(default_factory=dict)  # name, group, job_type, notes, tags, config


@dataclasses.dataclass
class Scenario:
    phases: list
    ranks: int = 1
    strategy: str = "main"
    statistics: str = "none"
    sdk: dict = dataclasses.field(default_factory=dict)  # settings that only the SDK has
    faulty: bool = False  # the server fails a third of the requests
    timeout: str = "20s"  # of Ranklog's wait for the delivery
    like: str = ""  # the scenario whose SDK run is also the one to compare this with
    script: str = ""  # in place of calls: a function of usual_scripts.py, with W&B's package and with Ranklog's


def log(step=None, **row):
    return {"log": row} if step is None else {"log": row, "step": step}


def define(name, **options):
    return {"define": {"name": name, **options}}


FINISH = {"finish": 0}


def one(*calls, **process):
    """One phase with one process."""
    return [Process([*calls], **process)]


def simple(*calls, **process):
    return Scenario([one(*calls, FINISH, **process)])


SETTINGS = {
    "name": "twin",
    "group": "twins",
    "job_type": "train",
    "notes": "two of a kind",
    "tags": ["a", "b"],
}

ROWS = [log(i, loss=1 / (i + 1), lr=0.5) for i in range(3)]
MORE = [log(i, loss=1 / (i + 1), lr=0.25) for i in range(3, 5)]
DEFAULTS = {"config": {"lr": 0.5, "deep": {"a": [1, 2], "b": {"c": "x"}}}, **SETTINGS}

BASICS = {
    # Nothing but the project.
    "bare": simple(log(loss=1.5), log(loss=0.5), log(acc=1)),
    "settings": simple(log(loss=1.5), settings=SETTINGS),
    "values": simple(
        log(0, nan="$nan", inf="$inf", minus="$-inf", tiny=1e-300, huge=1e300, tenth=0.1, whole=2.0, negative=-0.0),
        log(1, large=2**53 + 1, largest=2**63 - 1, least=-(2**63), unsigned=2**64 - 1, small=7, zero=0),
        log(2, yes=True, no=False, null=None, text="half \"way\" \\ there\n", empty="", wide="größe \U0001f600"),
        log(3, nested={"a": {"b": True, "nan": "$nan"}, "list": [1, 2.5, "x", None]}, hollow={}, none=[]),
        log(4, nested={"c": 2}),
        {"log": {"a.b": 1, "train/loss": 2, "größe": 3, "with space": 4}, "step": 5},
        {"log": {"_private": 1, "loss": 2}, "step": 6},
    ),
    "steps": simple(
        log(loss=1),
        log(loss=2),
        log(5, loss=3),
        log(5, acc=4),
        log(9, loss=5),
        log(loss=6),  # joins the open step
        log(loss=7),
        log(20, loss=8),
        log(15, late=9),  # a step that is over
        log(20, acc=10),
        log(loss=11),
        log(20, late=12),
        log(300, loss=13),
    ),
    "config": simple(
        {"config": {"epochs": 3, "deep": {"a": [1], "only": "this"}}},
        log(0, loss=1),
        {"config": {"lr": 0.25, "new": {"x": {"y": [True, None, "$nan"]}}}},
        log(1, loss=2),
        {"config": {"large": 2**53 + 1, "text": "größe", "none": None, "empty": {}, "list": []}},
        settings={"config": DEFAULTS["config"]},
    ),
    "definitions": simple(
        define("global_step"),
        define("train/*", step_metric="global_step"),
        define("val/loss", summary=["min", "last"]),
        define("val/acc", summary=["max"]),
        define("mean", summary=["mean", "first"]),
        define("secret", hidden=True),
        define("quiet", summary=["none"]),
        define("eval/*", summary=["max"], step_metric="epoch", step_sync=False),
        *(
            {
                "log": {
                    "train/loss": 1 / (i + 1),
                    "val/loss": 2.0 - i,
                    "val/acc": [0.5, 0.75, 0.25, 0.5][i],
                    "mean": 1.0 * i,
                    "secret": i,
                    "quiet": i,
                    "eval/f1": 0.5 * i,
                    "lr": 1.0 - i / 4,
                    # The SDK adds the last number where it is missing.
                    **({"global_step": 10.0 * i} if i != 2 else {}),
                },
                "step": i,
            }
            for i in range(4)
        ),
        define("lr", summary=["max"]),  # also for earlier rows
        {"log": {"train/loss": 1, "global_step": "a text"}, "step": 4},  # is not a step
        {"log": {"train/loss": 2}, "step": 5},
        {"log": {"train/acc": 2, "val/loss": "$nan", "train/more/deep": 1}, "step": 7},
    ),
    "summary": simple(
        {"summary": {"best": 0.25, "nested": {"a": 1}, "nan": "$nan"}},
        log(0, loss=1, acc=0.5),
        {"summary": {"loss": 7}},  # until the next row
        log(1, loss=2),
        {"summary": {"acc": 9, "note": "text", "flag": True}},
    ),
}



def png(width, height, caption=None):
    """An image: the bytes of a PNG file in hexadecimal digits, all its pixels of one grey."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    pixels = b"".join(b"\0" + bytes([16 * height] * width) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
    return {"$png": file.hex(), **({"caption": caption} if caption else {})}


# W&B's own kinds of values, and what else a run tells the people who watch it.
RICH = {
    "alert": simple(
        {"alert": {"title": "first", "text": "größe\n\U0001f600"}},
        *ROWS,
        {"alert": {"title": "t" * 64, "text": "", "level": "WARN", "wait": 5}},
        {"alert": {"title": "first", "text": "again", "level": "ERROR", "wait": 300}},
    ),
    "histogram": simple(
        log(0, grad={"$counts": [1, 0, 2**40], "$edges": [-0.5, 0.25, 1e-30 + 1, 3.0]}),
        log(1, loss=0.5, grad={"$counts": [3, 2], "$edges": [-1.0, 0.0, 1.0]}),
        log(2, loss=0.25),
    ),
    "image": simple(
        log(loss=1),
        log(loss=0.5, samples=png(3, 2, caption="größe"), note="a text"),
        {"log": {"eval/../deep//samples": png(4, 5), "/with space.x": png(1, 1)}},
        log(loss=0.25, samples=png(2, 2)),
    ),
    # The step is in the path of the file.
    "image_at_step": simple(log(7, samples=png(3, 2))),
    "images": simple(
        log(samples=[png(2, 2, caption="first"), png(3, 3, caption="second"), png(2, 2)]),
        log(samples=[png(2, 4)], loss=0.5),
    ),
    # More than either side sends.
    "many_images": simple(log(samples=[png(1 + i % 7, 1) for i in range(110)])),
    "table": simple(
        log(loss=1, predictions={"$columns": ["id", "größe", "flag"], "$rows": [[1, 'a "text"\n', True], [2, "\U0001f600", None]]}),
        log(**{"eval/t": {"$columns": ["x", "deep"], "$rows": [[0.1, {"a": ["b", "c"]}], [-2.5, {"a": ["d"]}]]}}),
        log(none={"$columns": ["x"], "$rows": []}),
    ),
    "html": simple(log(loss=1, report={"$html": "<b>größe</b>\n"}), {"log": {"eval/report": {"$html": ""}}}),
    # Both ranks log images, and rank 0's arrive.
    "media_of_ranks": Scenario(
        [[Process([log(0, samples=png(2 + rank, 2), loss=0.5), FINISH], rank=rank) for rank in range(2)]], ranks=2
    ),
}

BOTH_RANKS = [
    Process([*(log(i, loss=1 / (i + 1 + rank), lr=0.5) for i in range(5)), FINISH], rank=rank, settings=DEFAULTS)
    for rank in range(2)
]
RANKS = {
    "main": Scenario([BOTH_RANKS], ranks=2),
    "main_statistics": Scenario([BOTH_RANKS], ranks=2, statistics=""),
    "node": Scenario([BOTH_RANKS], ranks=2, strategy="node"),
    "all": Scenario([BOTH_RANKS], ranks=2, strategy="all"),
}

MANY = [log(loss=i) for i in range(19)]
ENDS = {
    "finish_3": Scenario([one(*ROWS, {"finish": 3})]),
    "exit_3": Scenario([one(*ROWS, {"exit": 3}, alone=True)]),
    "exit_0": Scenario([one(*ROWS, {"exit": 0}, alone=True)]),
    "preempted": Scenario([one(*ROWS, {"preempt": True}, {"exit": 3}, alone=True)]),
    # Rows that are younger than the SDK's 15 s when the process is killed.
    "killed": Scenario([one(log(loss=0.5), {"pause": 2}, *MANY, {"kill": 9}, alone=True)], sdk={"interval": 15}),
    # Offline, the SDK's log of a killed process may end within a record. Then `wandb sync` does not mark it. So Ranklog's
    # is compared with that of a process that fails after the same rows.
    "exit_1": Scenario([one(log(loss=0.5), *MANY, {"exit": 1}, alone=True)]),
}


def resumed(*before, first="", second="", like="", **process):
    """A run that a second process continues. `before`: the calls of the first one; none: there is no first one."""
    phases = [one(*before, FINISH, client=first, settings=DEFAULTS)] if before else []
    calls = [{"config": {"lr": 0.25}}, *(MORE if before else ROWS), FINISH]
    return Scenario([*phases, one(*calls, client=second, **process)], timeout="4s", like=like)


def resume(*modes):
    return {
        **{f"{mode}_new": resumed(resume=mode) for mode in modes},
        **{f"{mode}_existing": resumed(*ROWS, resume=mode) for mode in modes},
        **{f"{mode}_after_sdk": resumed(*ROWS, resume=mode, first="sdk", like=f"{mode}_existing") for mode in modes},
        **{f"{mode}_by_sdk": resumed(*ROWS, resume=mode, second="sdk", like=f"{mode}_existing") for mode in modes},
    }


RESUME = {
    **resume("allow", "must", "auto"),
    "without_steps": Scenario(
        [
            one(log(loss=1), log(loss=2), FINISH, settings=DEFAULTS),
            one(log(loss=3), log(loss=4), FINISH, resume="allow"),
        ]
    ),
}
RESUME_NEVER = {
    **resume("never"),
    "again": resumed(*ROWS),
    # From a checkpoint: some steps come again.
    "checkpoint": Scenario(
        [
            one(*ROWS, *MORE, FINISH, settings=DEFAULTS),
            one(*(log(i, loss=10 + i) for i in range(2, 8)), FINISH, resume="allow"),
        ]
    ),
    "forked": simple(log(loss=1), log(loss=2), log(2, loss=3), log(9, loss=4), fork_from="other?_step=2"),
}

EDIT = {"displayName": "by hand", "notes": "by hand", "tags": ["hand"]}
EDITS = {
    "edited": Scenario(
        [
            [
                Process([log(0, loss=1), {"await": "edit"}, {"config": {"lr": 0.25}}, log(1, loss=2), FINISH], settings=DEFAULTS),
                Process([], client="person", settings=EDIT),
            ]
        ],
    ),
    "edited_between": Scenario(
        [
            one(*ROWS, FINISH, settings=DEFAULTS),
            [Process([], client="person", settings=EDIT)],
            one({"config": {"lr": 0.25}}, *MORE, FINISH, resume="allow"),
        ]
    ),
}


FAULTS = {
    "faulty": Scenario([one(*(call for i in range(30) for call in (log(loss=i), {"pause": 0.1})), FINISH, settings=DEFAULTS)], faulty=True),
}

# All that the SDK sends by default.
WHOLE = {
    "whole": Scenario(
        [
            one(
                {"print": "hello"},
                *ROWS,
                {"pause": 4},  # for several samples, also on a busy machine
                {"print": "10 %\r20 %"},
                {"exit": 0},
                alone=True,
                settings=DEFAULTS,
            )
        ],
        sdk={"whole": True},
    ),
}



def artifact(name, files, **options):
    return {"artifact": {"name": name, "type": "model", "aliases": ["latest"], **options}, "files": files}


STATES = {"weights/model.bin": "x" * 100_000, "config.json": "{}", "empty": ""}
CONTENT = {
    "artifact": simple(log(0, loss=1), artifact("gpt", STATES, description="the best", metadata={"loss": 0.5, "deep": {"a": [1]}})),
    # The second version shares a file, the third one is the second one.
    "versions": simple(
        log(3, loss=1),
        artifact("versions", STATES),
        log(4, loss=0.5),
        artifact("versions", {**STATES, "config.json": '{"a": 1}'}, aliases=["latest", "best"]),
        artifact("versions", {**STATES, "config.json": '{"a": 1}'}, aliases=["last"]),
    ),
    "references": simple(log(0, loss=1), artifact("references", {"a.txt": "hello\n"}, references=["lustre://data/train.bin"])),
    "incremental": simple(
        log(3, loss=1),
        artifact("incremental", STATES),
        artifact("incremental", {"config.json": '{"a": 1}', "more.bin": "y" * 1000}, incremental=True),
    ),
    # In names that both clients log; the SDK's usual ones are those of Python programs.
    "code": simple(log(0, loss=1), {"code": "source-llm-train", "files": {"train.py": "x = 1", "sub/data.py": "", "notes.md": "-"}}),
    "used": simple(log(0, loss=1), artifact("used", {"a.txt": "hello\n"}), {"use": "used:latest"}),
    "saved": simple(log(0, loss=1), {"save": "notes.txt", "files": {"notes.txt": "hello"}}),
    "saved_live": simple(log(0, loss=1), {"save": "notes.txt", "policy": "live", "files": {"notes.txt": "hello"}}),
    "saved_end": simple({"save": "notes.txt", "policy": "end", "files": {"notes.txt": "hello"}}, log(0, loss=1)),
}


def script(name, ranks=1, starts=1, **scenario):
    return Scenario([[Process([], rank=rank) for rank in range(ranks)]] * starts, ranks=ranks, script=name, **scenario)


SCRIPTS = {
    "main_rank_only": script("main_rank_only", ranks=2),
    "every_rank": script("every_rank", ranks=2, strategy="all"),
    "first_of_each_node": script("first_of_each_node", ranks=2, strategy="node"),
    "pool": script("pool"),
    "child_logs": script("child_logs"),
    "checkpoint_of_epochs": script("checkpoint"),
    "own_step": script("own_step"),
    "continued": script("continued", starts=2),
    "values_of_python": script("values"),
}

GROUPS = {
    "basics": BASICS,
    "rich": RICH,
    "ranks": RANKS,
    "ends": ENDS,
    "resume": RESUME,
    "resume_never": RESUME_NEVER,
    "edits": EDITS,
    "faults": FAULTS,
    "whole": WHOLE,
    "content": CONTENT,
    "scripts": SCRIPTS,
}

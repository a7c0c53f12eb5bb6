"""The differences between what the server holds after the SDK and after Ranklog, each with its reason. The
referee fails if another one appears, or if one of these disappears.
"""

import dataclasses
import fnmatch


@dataclasses.dataclass
class Difference:
    scenarios: str  # globs of the scenarios that have it, and of those, after a "!", that do not
    paths: tuple  # globs of facts; each of them must match a difference
    reason: str
    offline: bool = True  # also after `wandb sync` of what both logged offline

    def concerns(self, scenario):
        words = self.scenarios.split()
        without = [word[1:] for word in words if word.startswith("!")]
        only = [word for word in words if not word.startswith("!")]
        return any(fnmatch.fnmatchcase(scenario, word) for word in only) and not any(
            fnmatch.fnmatchcase(scenario, word) for word in without
        )

    def covers(self, path):
        return any(matches(path, pattern) for pattern in self.paths)


def matches(path, pattern):
    # With several runs in a scenario, a path begins with the run's number.
    return fnmatch.fnmatchcase(path.split(":")[-1], pattern)


# In the first one, no run reaches the server. In the second one, the SDK's run should stay as it is.
NO_RUN = "!must_new !never_after_sdk"
# The SDK continued the run, and sent these for itself.
BY_SDK = "!allow_by_sdk !must_by_sdk !auto_by_sdk"

ALL = [
    Difference(
        f"* {NO_RUN} {BY_SDK}",
        ("config/_wandb/cli_version", "config/_wandb/python_version", "config/_wandb/t/4", "config/_wandb/t/5"),
        "versions of the SDK and of Python",
    ),
    Difference(
        f"* {NO_RUN}",
        (
            *("config/rank", "config/local_rank", "config/world_size", "config/node"),
            *(f"files/config.yaml/{key}" for key in ("rank", "local_rank", "world_size", "node")),
        ),
        "Ranklog tells the rank in the config",
    ),
    Difference("*_by_sdk !never_by_sdk", ("files/config.yaml/*",), "the same in the file"),
    Difference(
        "main_rank_only child_logs checkpoint_of_epochs own_step continued values_of_python bare artifact versions incremental code references used saved* values steps config definitions summary alert histogram image image_at_step images many_images table html media_of_ranks finish_3 exit_? preempted killed forked *_new !must_new",
        ("run/groupName",),
        "without a group, Ranklog takes the run's id",
    ),
    Difference("values_of_python", ("history/0/none",), "in Python, Ranklog leaves None out of a row; the SDK sends null"),
    Difference("continued", ("run/tags",), "the SDK sends the tags of the run that it continues, which has none"),
    Difference("steps", ("summary/ranklog/rows_lost", "files/wandb-summary.json/ranklog/rows_lost"), "Ranklog counts the rows whose step was over; the SDK only warns"),
    Difference("values", ("history/0/negative", "summary/negative", "files/wandb-summary.json/negative"), "the SDK sends -0.0 as 0", offline=False),
    Difference("values", ("history/1/unsigned", "summary/unsigned", "files/wandb-summary.json/unsigned"), "the SDK sends integers above 2^63 as floats", offline=False),
    Difference("values", ("history/3/hollow",), "the SDK leaves an empty map out", offline=False),
    Difference("config", ("config/empty", "files/config.yaml/empty"), "the same in the config", offline=False),
    Difference("config", ("config/deep", "files/config.yaml/deep"), "the SDK merges nested maps of the config, Ranklog replaces them"),
    Difference("config", ("config/new", "files/config.yaml/new"), "the SDK turns NaN in a list of the config into null"),
    Difference("summary", ("summary/nan", "files/wandb-summary.json/nan"), "the SDK drops NaN that the program sets in the summary"),
    Difference("main_statistics", ("history/*/rank_*", "summary/rank_*", "config/ranklog", "files/config.yaml/ranklog", "files/wandb-summary.json/rank_*"), "statistics over the ranks"),
    Difference(
        "image_at_step",
        ("history/0/samples", "summary/samples", "files/wandb-summary.json/samples", "files/media/images/*"),
        "the SDK names a file after the step before the one that its row gives",
    ),
    Difference(
        "table",
        tuple(
            f"{place}/{member}"
            for place in ("history/*/*", "summary/*", "files/wandb-summary.json/*")
            for member in ("artifact_path", "_latest_artifact_path")
        )
        + ("artifacts/run_table/*",),
        "the SDK logs a table as an artifact, too",
    ),
    Difference("node all", ("run/displayName",), "Ranklog names the runs of ranks rank-0, rank-1 and so on"),
    Difference(
        "again",
        ("runs", "history*", "config/deep", "files/config.yaml/deep", "run/*"),
        "Ranklog makes a run of its own, ID-2; the SDK writes into the first one",
    ),
    Difference(
        "killed",
        ("history*", "state"),
        "the SDK loses rows of the last 15 s, and lets the run time out; Ranklog sends all rows, and ends the run as failed",
        offline=False,
    ),
    Difference("killed", ("summary*", "files/*"), "the same in the summary, which also has Ranklog's reason, ranklog/end"),
    Difference(
        "whole",
        tuple(
            f"{place}/{key}"
            for place in ("config/_wandb/e", "files/wandb-metadata.json")
            for key in ("cpu", "python", "username")
        ),
        "facts of Python and of the processor; Ranklog's of the user",
    ),
    Difference(
        "whole",
        tuple(
            f"{place}/{key}"
            for place in ("config/_wandb/e", "files/wandb-metadata.json")
            for key in ("node", "pid", "rank", "ranklog", "world_size")
        ),
        "Ranklog's facts of the rank, for which an offline log has no place",
        offline=False,
    ),
]

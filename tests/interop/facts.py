"""What a fake server holds of a run, as facts that two runs can be compared by: a flat dictionary from a path, such as
`history/3/loss`, to a value. Values that differ from run to run, such as times, are replaced by their types.
"""

import hashlib
import json
import re

import yaml

SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
TIMES = ("_timestamp", "_runtime")


def kind(value):
    return type(value).__name__


def table_facts(path, entry, files):
    """The entry of a table, by member: the two sides write the table's JSON with other spaces, so the hash of its file is
    only compared with the file."""
    content = files.get(entry["path"], "").encode()
    digest = hashlib.sha256(content).hexdigest()
    own = {"path": entry["path"].replace(digest[:20], "HASH"), "sha256": entry["sha256"] == digest, "size": entry["size"] == len(content)}
    return {f"{path}/{member}": value for member, value in {**entry, **own}.items()}


def row_facts(prefix, row, files):
    facts = {}
    for key, value in row.items():
        if isinstance(value, dict) and value.get("_type") == "table-file":
            facts.update(table_facts(f"{prefix}/{key}", value, files))
            continue
        if key in TIMES:
            value = kind(value)
        elif key == "_wandb" and isinstance(value, dict):
            value = {name: kind(item) for name, item in value.items()}
        elif isinstance(value, float):
            value = f"float {value!r}"  # 2 and 2.0 are different on the wire
        facts[f"{prefix}/{key}"] = value
    return facts


def metric_facts(metrics):
    """The definitions by name: their order in the list does not matter."""
    names = [metric.get("1", metric.get("2")) for metric in metrics]
    facts = {}
    for name, metric in zip(names, metrics):
        # The lists of options and of summaries are sets.
        fields = {key: sorted(metric[key]) if key in ("6", "7") else metric[key] for key in metric if key not in ("1", "5")}
        if "5" in metric:
            fields["step"] = names[metric["5"] - 1]
        facts[f"metrics/{name}"] = fields
    return facts


def config_facts(config):
    facts = {}
    for key, wrapped in (config or {}).items():
        if key != "_wandb":
            facts[f"config/{key}"] = wrapped
            continue
        for name, value in wrapped["value"].items():
            if name == "m":
                facts.update(metric_facts(value))
            elif name == "e":
                for writer in value.values():
                    facts.update({f"config/_wandb/e/{member}": "given" for member in writer})
            elif name == "t":
                facts.update({f"config/_wandb/t/{number}": "given" for number in value})
            else:
                facts[f"config/_wandb/{name}"] = "given"
    return facts


def file_facts(name, files):
    content = files[name]
    if name.startswith("media/table/"):
        name = name.replace(hashlib.sha256(content.encode()).hexdigest()[:20], "HASH")
        content = json.loads(content)
    path = f"files/{name}"
    facts = {path: "given"}
    if name.startswith("media/"):
        facts[f"{path}/content"] = content
    if name == "wandb-metadata.json":
        facts.update({f"{path}/{key}": kind(value) for key, value in json.loads(content).items()})
    elif name == "wandb-summary.json":
        facts.update(row_facts(path, json.loads(content), files))
    elif name == "config.yaml":
        config = yaml.safe_load(content)
        facts.update({f"{path}/{key}": value for key, value in config.items() if key != "_wandb"})
    elif name == "output.log":
        facts[f"{path}/text"] = content
    return facts


def artifact_facts(artifact):
    path = f"artifacts/{artifact['type']}/{artifact['name']}/v{artifact['version']}"
    same = ("digest", "description", "history_step", "aliases", "tags", "committed", "files")
    facts = {f"{path}/{name}": artifact[name] for name in same}
    facts[f"{path}/metadata"] = json.loads(artifact["metadata"] or "null")
    manifest = artifact["manifest"]
    for name in ("version", "storagePolicy", "storagePolicyConfig"):
        facts[f"{path}/manifest/{name}"] = manifest[name]
    for name, entry in manifest["contents"].items():
        # The id of the artifact with the bytes is the server's; the others are of the SDK's machine.
        own = ("birthArtifactID", "skip_cache", "local_path")
        facts.update({f"{path}/manifest/{name}/{key}": value for key, value in entry.items() if key not in own})
    return facts


def facts_of(run):
    facts = {"project": run["project"], "entity": run["entity"], "state": "running"}
    if run["complete"]:
        facts["state"] = f"ended with {run['exit_code']}" + (", preempted" if run["preempting"] else "")
    variables = {**run["variables"], "program": bool(run["variables"].get("program"))}
    for name in ("config", "id", "name", "project", "entity"):
        variables.pop(name, None)
    facts.update({f"run/{name}": value for name, value in variables.items()})
    facts.update(config_facts(run["config"]))
    facts["history rows"] = len(run["history"])
    for i, row in enumerate(run["history"]):
        facts.update(row_facts(f"history/{i}", row, run["files"]))
    facts.update(row_facts("summary", run["summary"] or {}, run["files"]))
    for name in run["files"]:
        own = file_facts(name, run["files"])
        facts.update(own)
        facts[f"{next(iter(own))}/uploaded"] = name in run["uploaded"]
    # The SDK's is an integer or not, depending on whether the last row was committed at the end.
    for name in ("summary/_runtime", "files/wandb-summary.json/_runtime"):
        if facts.get(name) in ("int", "float"):
            facts[name] = "number"
    for row in run["events"]:
        for key in row:
            # The devices of this machine.
            facts["events/" + re.sub(r"\.disk\.[a-z0-9]+\.", ".disk.DEVICE.", key)] = "given"
    for i, line in enumerate(run["console"]):
        facts[f"console/{i}"] = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]*", "TIME", line)
    for artifact in run["artifacts"]:
        facts.update(artifact_facts(artifact))
    for name in run["used_artifacts"]:
        facts[f"uses/{name}"] = "drawn"
    for i, alert in enumerate(run["alerts"]):
        facts[f"alerts/{i}"] = alert
    return facts

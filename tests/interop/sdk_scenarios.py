"""Processes of scenarios, with the official SDK: performs the calls of each file, one file after the other.
ranklog_scenarios.cc performs the same calls through libranklog; scenarios.py has the calls.

    sdk_scenarios.py FILE...

Writes {"error": TEXT} to FILE.result, with an empty text if the run could start.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import wandb

SPECIAL = {"$nan": float("nan"), "$inf": float("inf"), "$-inf": -float("inf")}


def value_of(value):
    """JSON has no numbers for these."""
    if isinstance(value, str):
        return SPECIAL.get(value, value)
    if isinstance(value, list):
        return [value_of(item) for item in value]
    if isinstance(value, dict) and "$counts" in value:
        return wandb.Histogram(np_histogram=(value["$counts"], value["$edges"]))
    if isinstance(value, dict) and "$png" in value:
        path = pathlib.Path(tempfile.mkdtemp()) / "image.png"
        path.write_bytes(bytes.fromhex(value["$png"]))
        return wandb.Image(str(path), caption=value.get("caption"))
    if isinstance(value, dict) and "$columns" in value:
        return wandb.Table(columns=value["$columns"], data=value["$rows"])
    if isinstance(value, dict) and "$html" in value:
        return wandb.Html(value["$html"], inject=False)
    if isinstance(value, dict):
        return {key: value_of(item) for key, item in value.items()}
    return value


def settings(job):
    own = job["sdk"]
    plain = {} if own.get("whole") else {"console": "off", "x_disable_stats": True, "x_disable_meta": True}
    return wandb.Settings(
        disable_git=True,
        x_save_requirements=bool(own.get("whole")),
        # A value below 1 counts as the default, 15 s.
        x_file_stream_transmit_interval=own.get("interval", 1),
        x_file_stream_retry_wait_min_seconds=1,
        x_file_transfer_retry_wait_min_seconds=1,
        x_graphql_retry_wait_min_seconds=1,
        x_stats_sampling_interval=0.5,
        **plain,
    )


def perform(run, call):
    """Performs a call. Returns False after the one that ends the process's part of the run."""
    if "log" in call:
        run.log(value_of(call["log"]), step=call.get("step"))
    if "config" in call:
        run.config.update(value_of(call["config"]), allow_val_change=True)
    if "summary" in call:
        for key, value in value_of(call["summary"]).items():
            run.summary[key] = value
    if "define" in call:
        metric = dict(call["define"])
        if "summary" in metric:
            metric["summary"] = ",".join(metric["summary"])
        run.define_metric(metric.pop("name"), **metric)
    if "use" in call:
        run.use_artifact(call["use"])
    if "files" in call:
        directory = pathlib.Path(tempfile.mkdtemp())
        for name, text in call["files"].items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if "save" in call:
            run.save(str(directory / call["save"]), base_path=str(directory), policy=call.get("policy", "now"))
    if "code" in call:
        logged = run.log_code(str(directory), name=call["code"])
        if not run.offline:
            logged.wait()
    if "artifact" in call:
        given = dict(call["artifact"])
        aliases, references = given.pop("aliases"), given.pop("references", [])
        made = wandb.Artifact(**given)
        made.add_dir(str(directory))
        for url in references:
            made.add_reference(url, name=url.rsplit("/", 1)[1], checksum=False)
        logged = run.log_artifact(made, aliases=aliases)
        if not run.offline:
            logged.wait()
    if "preempt" in call:
        run.mark_preempting()
    if "alert" in call:
        alert = call["alert"]
        run.alert(alert["title"], alert["text"], level=alert.get("level"), wait_duration=alert.get("wait"))
    if "print" in call:
        print(call["print"])
    if "pause" in call:
        time.sleep(call["pause"])
    while "await" in call and not os.path.exists(call["await"]):
        time.sleep(0.05)
    if "kill" in call:
        os.kill(os.getpid(), signal.SIGKILL)
    if "exit" in call:
        sys.exit(call["exit"])
    if "finish" in call:
        run.finish(exit_code=call["finish"])
    return "finish" not in call


def main():
    for name in sys.argv[1:]:
        job = json.loads(pathlib.Path(name).read_text())
        result = pathlib.Path(name + ".result")
        try:
            run = wandb.init(**job["init"], settings=settings(job))
        except wandb.errors.Error as error:
            result.write_text(json.dumps({"error": str(error)}))
            continue
        result.write_text(json.dumps({"error": ""}))
        all(perform(run, call) for call in job["calls"])


main()

"""The referee: the official SDK and the real programs of Ranklog go through the same scenarios against the same fake
server. What the server then holds must be equal, except for the differences that differences.py lists. A difference that
is not listed fails, and so does one that is listed but does not appear.

    referee.py FAKE_WANDB RANKLOGD RANKLOG_SCENARIOS [offline:]GROUP [SCENARIO...]

GROUP is one of those of scenarios.py. With `offline:`, both sides log with WANDB_MODE=offline, and `wandb sync` uploads
their directories.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import differences
import facts
import scenarios

HERE = pathlib.Path(__file__).parent
FEATURES = ["EXPAND_DEFINED_METRIC_GLOBS", "MARK_RUN_FILES_UPLOADED"]
SDK, RANKLOG = "sdk", "ranklog"
ABSENT = "absent"
TIMEOUT = 60
# As settings() of sdk_scenarios.py, for scripts that give none.
SDK_SETTINGS = {
    "WANDB_CONSOLE": "off",
    "WANDB_DISABLE_GIT": "true",
    "WANDB__DISABLE_META": "true",
    "WANDB__DISABLE_STATS": "true",
    "WANDB__SAVE_REQUIREMENTS": "false",
    "WANDB__FILE_STREAM_TRANSMIT_INTERVAL": "1",
}


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def launcher_environment(scenario, process):
    """The variables of torchrun."""
    local = scenario.ranks if scenario.strategy != "node" else 1
    node = process.rank if scenario.strategy == "node" else 0
    variables = {
        "RANK": process.rank,
        "LOCAL_RANK": process.rank % local,
        "WORLD_SIZE": scenario.ranks,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": node,
    }
    return {key: str(value) for key, value in variables.items()}


class Referee:
    def __init__(self, programs, home, stack, chosen, offline):
        self.fake, self.ranklogd, self.program = map(os.path.abspath, programs)
        self.package = pathlib.Path(self.ranklogd).parent.parent / "python"
        self.home = pathlib.Path(home)
        self.stack = stack
        self.scenarios = chosen
        self.offline = offline
        self.failures = []  # of scripts
        self.errors = {}  # what the processes of (side, scenario) reported
        faulty = [True] if any(s.faulty for s in chosen.values()) else []
        # Each side has its own server, so that both meet the same faults.
        self.servers = {(side, f): self.start_server(f) for side in (SDK, RANKLOG) for f in [False, *faulty]}
        nodes = 2 if any(s.strategy == "node" for s in chosen.values()) else 1
        for node in range(nodes):
            self.start_daemon(node)

    def start(self, *args, **options):
        process = subprocess.Popen(args, **options)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def start_server(self, faulty):
        faults = ["--fail-every", "3"] if faulty else []
        server = self.start(self.fake, *faults, "0", *FEATURES, stdout=subprocess.PIPE, text=True)
        return server.stdout.readline().strip()

    def start_daemon(self, node):
        state = self.home / f"node{node}"
        state.mkdir(mode=0o700)
        self.start(
            *(self.ranklogd, "--state-dir", state / "state", "--listen", f"unix:{state}/d.sock"),
            *("--spool-dir", state / "spool", "--transmit-interval", "1s", "--sample-interval", "500ms"),
            env=self.environment(),
            stderr=(state / "log").open("w"),
        )

        def accepts():
            with socket.socket(socket.AF_UNIX) as client:
                return client.connect_ex(f"{state}/d.sock") == 0

        assert wait_for(accepts, 20), (state / "log").read_text()

    def environment(self):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "WANDB_DIR": str(self.home),
            "WANDB_SILENT": "true",
            "WANDB_API_KEY": "0123456789" * 4,
            "NO_PROXY": "127.0.0.1",
        }

    def side_environment(self, side):
        return self.environment() | ({"WANDB_MODE": "offline", "WANDB_DIR": str(self.wandb_dir(side))} if self.offline else {})

    def wandb_dir(self, side):
        return self.home / f"{side}.dir"

    def url(self, side, scenario):
        return self.servers[side, scenario.faulty]

    # ---- the processes of one phase ----

    def sdk_file(self, side, name, process, phase):
        """Writes what sdk_scenarios.py reads. None: this rank does not log, as in its users' programs."""
        scenario = self.scenarios[name]
        if scenario.strategy == "main" and process.rank > 0:
            return None
        run_id = f"{side}.{name}" + (f".{process.rank}" if scenario.strategy != "main" else "")
        init = {"project": scenarios.PROJECT, "entity": scenarios.ENTITY, "id": run_id, **process.settings}
        if process.resume:
            init["resume"] = process.resume
        if process.fork_from:
            init["fork_from"] = process.fork_from
        file = self.home / f"{side}.{name}.{phase}.{process.rank}.sdk.json"
        file.write_text(json.dumps({"init": init, "sdk": scenario.sdk, "calls": self.calls(side, name, process)}))
        return file

    def run_sdk(self, side, scenario, files):
        environment = {**self.side_environment(side), "WANDB_BASE_URL": self.url(side, scenario)}
        args = [sys.executable, str(HERE / "sdk_scenarios.py"), *map(str, files)]
        subprocess.run(args, env=environment, cwd=self.home, timeout=TIMEOUT, stdout=subprocess.DEVNULL)
        for file in files:
            name = file.name.split(".")[1]
            self.errors.setdefault((side, name), []).append(json.loads(file.with_name(file.name + ".result").read_text()))

    def ranklog_environment(self, name, process):
        scenario = self.scenarios[name]
        settings = process.settings
        node = process.rank if scenario.strategy == "node" else 0
        environment = {
            **self.side_environment(RANKLOG),
            "WANDB_BASE_URL": self.url(RANKLOG, scenario),
            **launcher_environment(scenario, process),
            "RANKLOG_NODE": f"node{node}",
            "RANKLOG_PROJECT": scenarios.PROJECT,
            "RANKLOG_ENTITY": scenarios.ENTITY,
            "RANKLOG_RUN_ID": f"{RANKLOG}.{name}",
            "RANKLOG_LOG_STRATEGY": scenario.strategy,
            "RANKLOG_RANK_STATISTICS": scenario.statistics,
            "RANKLOG_RESUME": process.resume,
            "WANDB_FORK_FROM": process.fork_from,
            "RANKLOG_NAME": settings.get("name", ""),
            "RANKLOG_RUN_GROUP": settings.get("group", ""),
            "RANKLOG_JOB_TYPE": settings.get("job_type", ""),
            "RANKLOG_NOTES": settings.get("notes", ""),
            "RANKLOG_TAGS": ",".join(settings.get("tags", [])),
            "RANKLOG_ADDRESS": f"unix:{self.home}/node{node}/d.sock",
            "RANKLOG_SPOOL_DIR": f"{self.home}/node{node}/spool",
            "RANKLOG_STATE_DIR": f"{self.home}/node{node}/state",
            "RANKLOG_START_DAEMON": "false",
            "RANKLOG_QUIET": "1",
            "RANKLOG_FINISH": f"delivered:{scenario.timeout}",
            # As the SDK's settings: only one scenario is about them.
            "RANKLOG_METADATA": "" if scenario.sdk.get("whole") else "0",
            "RANKLOG_SYSTEM_METRICS": "" if scenario.sdk.get("whole") else "0",
        }
        return {key: str(value) for key, value in environment.items() if value != ""}

    def run_ranklog(self, name, process, phase):
        settings = process.settings
        calls = ([{"config": settings["config"]}] if "config" in settings else []) + self.calls(RANKLOG, name, process)
        file = self.home / f"{name}.{phase}.{process.rank}.json"
        file.write_text(json.dumps({"calls": calls}))
        environment = self.ranklog_environment(name, process)
        done = subprocess.run(
            [self.program, file], env=environment, cwd=self.home, timeout=TIMEOUT, stdout=subprocess.PIPE, text=True
        )
        reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.errors.setdefault((RANKLOG, name), []).extend(reports)

    def run_script(self, side, name, process):
        """Runs a script of usual_scripts.py."""
        scenario = self.scenarios[name]
        if side == RANKLOG:
            environment = {**self.ranklog_environment(name, process), "PYTHONPATH": str(self.package)}
            if scenario.ranks == 1:
                environment.pop("RANKLOG_RUN_ID")  # the script's
        else:
            environment = {
                **self.side_environment(SDK),
                **launcher_environment(scenario, process),
                **SDK_SETTINGS,
                "WANDB_BASE_URL": self.url(SDK, scenario),
            }
            if scenario.ranks > 1:
                environment["WANDB_RUN_ID"] = f"{SDK}.{name}-{process.rank}"
        environment["SCRIPTS_ID"] = f"{side}.{name}"
        module = "wandb" if side == SDK else "ranklog"
        args = [sys.executable, str(HERE / "usual_scripts.py"), module, scenario.script]
        done = subprocess.run(args, env=environment, cwd=self.home, timeout=TIMEOUT, capture_output=True, text=True)
        if done.returncode != 0:
            self.failures.append(f"{name} with {module}: exit code {done.returncode}\n{done.stdout}{done.stderr}")

    def edit(self, side, name, process):
        """Changes a run as a person does on the web page, once the run is there."""
        url = self.url(side, self.scenarios[name])
        run_id = f"{side}.{name}"
        assert wait_for(lambda: run_id in json.load(urllib.request.urlopen(url + "/dump"))["runs"], TIMEOUT)
        run = {"name": run_id, "project": scenarios.PROJECT, "entity": scenarios.ENTITY}
        body = {"operationName": "UpsertBucket", "query": "", "variables": {**run, **process.settings}}
        request = urllib.request.Request(url + "/graphql", json.dumps(body).encode())
        request.add_header("Authorization", "Basic a2V5")
        urllib.request.urlopen(request).close()
        self.edited(side, name).touch()

    def edited(self, side, name):
        return self.home / f"{side}.{name}.edited"

    def calls(self, side, name, process):
        """The calls, with the file to wait for."""
        return [{"await": str(self.edited(side, name))} if "await" in call else call for call in process.calls]

    # ---- a side ----

    def run_phase(self, side, names, phase):
        """Runs the processes of all scenarios at the same time; those of the SDK one after the other, where they may."""
        together = {}  # by server: files for one process of the SDK
        with concurrent.futures.ThreadPoolExecutor(max_workers=12) as pool:
            tasks = []
            for name in names:
                scenario = self.scenarios[name]
                for process in scenario.phases[phase] if phase < len(scenario.phases) else []:
                    if scenario.script:
                        tasks.append(pool.submit(self.run_script, side, name, process))
                        continue
                    if process.client == "person":
                        tasks.append(pool.submit(self.edit, side, name, process))
                        continue
                    if side == RANKLOG and process.client != SDK:
                        tasks.append(pool.submit(self.run_ranklog, name, process, phase))
                        continue
                    file = self.sdk_file(side, name, process, phase)
                    if file is None:
                        continue
                    if process.alone:
                        tasks.append(pool.submit(self.run_sdk, side, scenario, [file]))
                    else:
                        together.setdefault(scenario.faulty, (scenario, []))[1].append(file)
            for scenario, files in together.values():
                tasks.append(pool.submit(self.run_sdk, side, scenario, files))
        for task in tasks:
            task.result()

    def run_side(self, side):
        self.wandb_dir(side).mkdir()
        names = [n for n, s in self.scenarios.items() if side == RANKLOG or not s.like]
        for phase in range(max(len(s.phases) for s in self.scenarios.values())):
            self.run_phase(side, names, phase)
        if self.offline:
            self.sync(side)

    def sync(self, side):
        """Uploads the directories with the SDK's own command."""
        environment = {**self.environment(), "WANDB_BASE_URL": self.servers[side, False], "WANDB__DISABLE_META": "true"}
        runs = list(map(str, self.wandb_dir(side).glob("wandb/offline-run-*")))
        args = [sys.executable, "-m", "wandb", "sync", *runs]
        done = subprocess.run(args, env=environment, cwd=self.home, timeout=TIMEOUT, check=True, stdout=subprocess.PIPE)
        unmarked = [run for run in runs if not list(pathlib.Path(run).glob("*.synced"))]
        assert not unmarked, (unmarked, done.stdout)

    def dump(self, side):
        """The runs by scenario, and what the server noted."""
        runs, notes = {}, []
        for (of, _), url in self.servers.items():
            if of != side:
                continue
            dump = json.load(urllib.request.urlopen(url + "/dump"))
            for run_id, run in sorted(dump["runs"].items()):
                match = re.match(rf"{side}\.([a-z0-9_]+)", run_id)
                runs.setdefault(match.group(1), []).append(run)
            notes += dump["errors"]
        return runs, notes

    def await_ends(self):
        """Waits for Ranklog's daemon, which sends the end of a killed process."""
        wait_for(lambda: all(run["complete"] for runs in self.dump(RANKLOG)[0].values() for run in runs), 10)

    def facts(self, side, name, runs, notes):
        all_facts = {"runs": len(runs)}
        for i, run in enumerate(runs):
            prefix = f"{i}:" if self.scenarios[name].ranks > 1 and len(runs) > 1 else ""
            all_facts.update({prefix + path: value for path, value in facts.facts_of(run).items()})
        for i, note in enumerate(n for n in notes if re.match(rf"{side}\.{name}\b", n)):
            all_facts[f"notes/{i}"] = note
        # Both name the setting when they refuse a start.
        all_facts["refused"] = any("resume" in error["error"] for error in self.errors.get((side, name), []))
        return all_facts


    def read_back(self):
        """Returns how what the SDK reads of Ranklog's runs differs from what the server holds."""
        wrong = []
        for (side, faulty), url in self.servers.items():
            dump = {} if side != RANKLOG or faulty else json.load(urllib.request.urlopen(url + "/dump"))["runs"]
            if not dump:
                continue
            args = [sys.executable, str(HERE / "sdk_read.py"), f"{scenarios.ENTITY}/{scenarios.PROJECT}", *dump]
            environment = {**self.environment(), "WANDB_BASE_URL": url}
            done = subprocess.run(
                args, env=environment, cwd=self.home, timeout=TIMEOUT, check=True, stdout=subprocess.PIPE, text=True
            )
            for run_id, read in json.loads(done.stdout.splitlines()[-1]).items():
                held = texts(held_by_server(dump[run_id]))
                wrong += [
                    f"{run_id}: the SDK reads another {name}\n    server   {held[name]!r}\n    SDK      {value!r}"
                    for name, value in texts(read).items()
                    if value != held[name]
                ]
        return wrong

    def download(self):
        """Each side downloads what the other logged. Returns how that differs from the files of the scenarios."""
        wrong = []
        for name, scenario in self.scenarios.items():
            calls = [call for phase in scenario.phases for process in phase for call in process.calls]
            logged = [call for call in calls if "artifact" in call]
            if not logged:
                continue
            files = logged[-1]["files"]
            if logged[-1]["artifact"].get("incremental"):
                files = {**logged[-2]["files"], **files}
            artifact = f"{scenarios.ENTITY}/{scenarios.PROJECT}/{logged[-1]['artifact']['name']}:latest"
            if "latest" not in logged[-1]["artifact"]["aliases"]:
                files = logged[-2]["files"]
            ranklog = [str(pathlib.Path(self.ranklogd).parent / "ranklog"), "artifacts", "get", artifact, "--root"]
            for side, args in {
                RANKLOG: [sys.executable, str(HERE / "sdk_download.py"), artifact],
                SDK: ranklog,
            }.items():
                root = self.home / f"download.{side}.{name}"
                environment = {**self.environment(), "WANDB_BASE_URL": self.url(side, scenario)}
                subprocess.run([*args, str(root)], env=environment, timeout=TIMEOUT, check=True, stdout=subprocess.DEVNULL)
                found = {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}
                if found != files:
                    wrong.append(f"{name}: of the artifact at the server of {side}, these files arrive: {sorted(found)}")
        return wrong


def texts(value):
    """Numbers that are not JSON are texts in the server's dump. The SDK reads integers above 2^63 as floats."""
    if isinstance(value, int) and value >= 2**63:
        return float(value)
    if isinstance(value, dict):
        return {key: texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [texts(item) for item in value]
    return facts.SPECIAL.get(str(value), value) if isinstance(value, float) else value


def held_by_server(run):
    ended = "finished" if run["exit_code"] == 0 else "preempted" if run["preempting"] else "failed"
    return {
        "history": run["history"],
        "config": {key: value["value"] for key, value in run["config"].items() if key != "_wandb"},
        "summary": run["summary"],
        "state": ended if run["complete"] else "running",
        # The server makes up a name where there is none.
        "name": run["variables"]["displayName"],
        "tags": run["variables"]["tags"] or [],
        "notes": run["variables"]["notes"],
        "group": run["variables"]["groupName"],
        "files": sorted(run["uploaded"]),
        "events": run["events"],
    }


def judge(name, sdk, ranklog, offline):
    """Returns the differences that nobody expects, and the expected ones that do not exist."""
    found = {
        path: (sdk.get(path, ABSENT), ranklog.get(path, ABSENT))
        for path in sorted({*sdk, *ranklog})
        if sdk.get(path, ABSENT) != ranklog.get(path, ABSENT)
    }
    expected = [d for d in differences.ALL if d.concerns(name) and (d.offline or not offline)]
    wrong = []
    for path, (theirs, ours) in found.items():
        if not any(d.covers(path) for d in expected):
            wrong.append(f"{name}: {path}\n    SDK      {theirs!r}\n    Ranklog  {ours!r}")
    for difference in expected:
        for pattern in difference.paths:
            if not any(differences.matches(path, pattern) for path in found):
                wrong.append(f"{name}: {pattern} is equal now; differences.py says: {difference.reason}")
    return len(found), wrong


def main():
    *programs, group = sys.argv[1:5]
    offline = group.startswith("offline:")
    group = group.removeprefix("offline:")
    only = sys.argv[5:]
    chosen = {n: s for n, s in scenarios.GROUPS[group].items() if not only or n in only}
    if offline:
        chosen.pop("used", None)  # the SDK cannot use an artifact
        if "killed" in chosen:
            chosen["exit_1"] = scenarios.GROUPS[group]["exit_1"]
            chosen["killed"] = dataclasses.replace(chosen["killed"], like="exit_1")
    wrong = []
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="referee."))
        referee = Referee(programs, home, stack, chosen, offline)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for side in [pool.submit(referee.run_side, SDK), pool.submit(referee.run_side, RANKLOG)]:
                side.result()
        referee.await_ends()
        sdk_runs, sdk_notes = referee.dump(SDK)
        our_runs, our_notes = referee.dump(RANKLOG)
        count = 0
        for name, scenario in chosen.items():
            like = scenario.like or name
            theirs = referee.facts(SDK, like, sdk_runs.get(like, []), sdk_notes)
            ours = referee.facts(RANKLOG, name, our_runs.get(name, []), our_notes)
            differ, bad = judge(name, theirs, ours, offline)
            print(f"{name}: {len({*theirs, *ours})} facts, {differ} differ, {len(bad)} not as expected")
            count += 1
            wrong += bad
        wrong += referee.failures + referee.read_back() + referee.download()
        if wrong:
            for log in pathlib.Path(home).glob("node*/log"):
                print(f"---- {log}\n{log.read_text()[-3000:]}----")
    print("\n".join(wrong))
    print(f"{count} scenarios, {len(wrong)} differences are not as expected")
    sys.exit(1 if wrong else 0)


main()

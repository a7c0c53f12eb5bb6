#!/usr/bin/env python3
"""Trains over NCCL on this machine's GPUs and judges the figures. See --help."""

import argparse
import array
import contextlib
import json
import math
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SOURCES = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCES / "tests" / "support"))
from figures import Figure, as_json, number, text  # noqa: E402

EPILOG = """Trials:
  gradients    two ranks: their gradients are equal over NCCL, and up to rounding equal to those of Gloo on the CPU
  training     two ranks, in float32 and bfloat16, and torchrun with a rank for each GPU: the loss falls
  placement    one rank more than there are GPUs: an error that says so
  lost_rank    a rank is killed, a rank is stopped: the other names it and ends
  resume       a training is stopped with SIGTERM or killed, and resumes: its weights are those of a training without a stop
  service      ranklogd is killed and started again while a rank for each GPU logs every step: `ranklog verify` misses no row
  logging      the cost of ten metrics in every step
  python       the speed, compared with PyTorch's loop in Python
  gpt2         speed and memory of GPT-2 with 124 million parameters in bfloat16

Where there is one GPU, two ranks share it: NCCL accepts this if it believes that they are on two machines. Their speed means nothing.

Examples:
  tests/gpu_trials.py build/gpu
  tests/gpu_trials.py build/gpu --only gradients --only lost_rank
  tests/gpu_trials.py build/gpu --service build/release/bin --json
"""

LIMIT = 120  # seconds; a slow start of CUDA takes 20
TOKENS = {"small": 8 * 128, "gpt2": 16 * 1024}  # of a step of `trainer_rank turns`
# Of a token, forward and backward: 6 for each parameter, and 12 * layers * width * context for the attention (PaLM, appendix B).
GPT2_FLOPS = 6 * 124439808 + 12 * 12 * 768 * 1024
LOGGING = {"WANDB_MODE": "", "RANKLOG_DESTINATIONS": "local"}
STOPPED = 75  # trainer/base/stop_signal.h


def say(line):
    print(f"{time.strftime('%T')} {line}", file=sys.stderr, flush=True)


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(condition, what, process, limit=LIMIT):
    """Waits for what `process` does."""
    end = time.monotonic() + limit
    while not condition():
        expect(process.process.poll() is None, f"it ended before {what}:\n{process.output()}")
        expect(time.monotonic() < end, f"no {what} within {limit} s:\n{process.output()}")
        time.sleep(0.02)


class Process:
    """A process with its output in a file. With `pipes`, it takes turns, and the file has its errors only."""

    def __init__(self, command, log, environment, pipes=False):
        self.log = log
        with open(log, "w") as out:
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if pipes else {"stdin": subprocess.DEVNULL, "stdout": out}
            self.process = subprocess.Popen([str(word) for word in command], cwd=SOURCES, stderr=out, text=True, start_new_session=True,
                                            env={key: value for key, value in (os.environ | environment).items() if value is not None}, **streams)

    def output(self):
        return self.log.read_text(errors="replace")

    def wait(self, limit=LIMIT):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(limit)
        self.kill()
        raise Failure(f"it ran longer than {limit} s:\n{self.output()}")

    def expect(self, code=0, limit=LIMIT):
        ended = self.wait(limit)
        expect(ended == code, f"it ended with {ended} instead of {code}:\n{self.output()}")
        return self.output()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def read_line(self):
        hangs = threading.Timer(LIMIT, self.kill)
        hangs.start()
        line = self.process.stdout.readline()
        hangs.cancel()
        expect(line, f"it ended early:\n{self.output()}")
        return line.rstrip("\n")

    def take(self, steps, log=False):
        """Takes a turn of tests/trainer/turns_rank.cc. Returns its seconds."""
        print(steps, "log" if log else "plain", file=self.process.stdin, flush=True)
        return float(self.read_line().split()[0])


class Trials:
    def __init__(self, options, work):
        self.build, self.service, self.work = options.build.resolve(), options.service and options.service.resolve(), work
        self.train = self.build / "bin" / "ranklog-train"
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True).stdout
        self.installed = len(re.findall("^GPU ", listed, re.MULTILINE))
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.visible = [str(i) for i in range(self.installed)] if chosen is None else [gpu for gpu in chosen.split(",") if gpu]
        self.gpus = len(self.visible)
        expect(self.gpus > 0, "no GPU is visible")
        self.started = []
        self.environment = {"RANKLOG_START_DAEMON": "false", "RANKLOG_ADDRESS": f"unix:{work}/ranklogd.sock", "RANKLOG_SPOOL_DIR": str(work),
                            "WANDB_MODE": "disabled"}

    def start(self, name, command, environment=None, pipes=False):
        process = Process(command, self.work / f"{name}.log", self.environment | (environment or {}), pipes)
        self.started.append(process)
        return process

    def ranks(self, name, command, world=2):
        """Starts the ranks without a launcher, so that each has its own process and output."""
        port = free_port()
        processes = []
        for rank in range(world):
            variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0,
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
            if world > self.gpus:
                variables |= {"CUDA_VISIBLE_DEVICES": self.visible[rank % self.gpus], "NCCL_HOSTID": f"host-{rank}", "NCCL_SOCKET_IFNAME": "lo",
                              "NCCL_IB_DISABLE": 1}
            processes.append(self.start(f"{name}.{rank}", command, {key: str(value) for key, value in variables.items()}))
        return processes

    def end_all(self):
        for process in self.started:
            process.kill()
        self.started = []

    # ---- The trials: each returns its figures, or raises a Failure. ----

    def gradients(self):
        for comm in ("gloo", "nccl"):
            (self.work / comm).mkdir()
            for process in self.ranks(f"gradients.{comm}", [self.build / "tests" / "trainer_rank", "gradients", self.work / comm, comm]):
                process.expect()

        def read(comm, step, rank):
            return array.array("f", (self.work / comm / f"synced.{step}.{rank}").read_bytes())
        steps = len(list((self.work / "nccl").glob("synced.*.0")))
        different, distances = 0, []
        for step in range(steps):
            nccl, gloo = read("nccl", step, 0), read("gloo", step, 0)
            different += nccl != read("nccl", step, 1)
            distances.append(math.dist(nccl, gloo) / math.hypot(*gloo))
        distance = max(distances) if all(map(math.isfinite, distances)) else math.nan
        return [Figure("steps", steps, "", at_least=1), Figure("steps in which the ranks differ", different, "", at_most=0),
                Figure("distance of NCCL and Gloo", distance, "", at_most=1e-4)]

    def training(self):
        command = [self.train, "--comm", "nccl", "--model", "small", "--steps", 200]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", self.gpus]
        figures = []
        for dtype in ("float32", "bfloat16"):
            name = f"training.{dtype}"
            typed = [*command, "--dtype", dtype]
            first, second = self.ranks(name, typed)
            outputs = {"two ranks": first.expect(), "torchrun": self.start(f"{name}.torchrun", [*torchrun, *typed]).expect(),
                       "--nproc-per-node gpu": self.start(f"{name}.gpu", [*typed, "--nproc-per-node", "gpu"]).expect()}
            second.expect()
            for starter, output in outputs.items():
                losses = re.findall(r"step 200/200 +train/loss ([0-9.]+)", output)
                expect(losses, f"{starter} took no 200 steps:\n{output}")
                figures.append(Figure(f"loss in {dtype}, {starter}", float(losses[-1]), "nats", at_most=2.9, note="5.5 at the start"))
        return figures

    def placement(self):
        one_more = [self.train, "--comm", "nccl", "--steps", 1, "--nproc-per-node", self.installed + 1]
        output = self.start("placement", one_more, {"CUDA_VISIBLE_DEVICES": None}).expect(1)
        expect("NCCL needs one per rank" in output, f"the error does not name the reason:\n{output}")
        return []

    def lost_rank(self):
        figures = []
        for end, within in ((signal.SIGKILL, 20), (signal.SIGSTOP, 25)):
            first, second = self.ranks(f"lost_rank.{end.name}", [self.train, "--comm", "nccl", "--steps", 1000000, "--seq-len", 16, "--val-every",
                                                                 0, "--group-timeout", 5])
            wait_until(lambda: "step " in first.output(), "its first step", first)
            os.kill(second.process.pid, end)
            began = time.monotonic()
            output = first.expect(1)
            figures.append(Figure(f"time until the end after {end.name}", time.monotonic() - began, "s", at_most=within, note=output.splitlines()[-1]))
            expect(f"rank 1 (pid {second.process.pid} on " in output, f"the error does not name rank 1:\n{output}")
            second.kill()
        return figures

    def weights(self, experiment):
        """Returns the parameters of an experiment's newest checkpoint."""
        import torch
        raw = max((self.work / experiment).glob("checkpoint-*.safetensors")).read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + length])
        begin, parts = 8 + length, []
        for name, tensor in header.items():
            if name.startswith("model.") and tensor["dtype"] == "F32":
                first, last = tensor["data_offsets"]
                parts.append(torch.frombuffer(bytearray(raw[begin + first:begin + last]), dtype=torch.float32).double())
        expect(parts, f"the checkpoint has no weights; its names begin with {list(header)[:5]}")
        return torch.cat(parts)

    def resume(self):
        def command(experiment):
            return [self.train, "--comm", "nccl", "--model", "small", "--steps", 400, "--save-every", 100, "--keep", 9, "--val-every", 0,
                    "--save-dir", self.work, "--experiment-name", experiment, "--resume"]
        for experiment in ("whole", "again"):
            self.start(f"resume.{experiment}", command(experiment)).expect()
        whole = self.weights("whole")
        # Some of CUDA's kernels add in the order in which their threads come, so two trainings differ as well.
        noise = float((self.weights("again") - whole).norm() / whole.norm())
        figures = [Figure("distance of two trainings", noise, "", at_most=1e-3)]
        for end, code in ((signal.SIGTERM, STOPPED), (signal.SIGKILL, -signal.SIGKILL)):
            process = self.start(f"resume.{end.name}", command(end.name))
            wait_until(lambda: list((self.work / end.name).glob("checkpoint-*.safetensors")), "its first checkpoint", process)
            process.process.send_signal(end)
            process.expect(code)
            output = self.start(f"resume.{end.name}.resumed", command(end.name)).expect()
            expect("resuming after step " in output, f"it did not resume:\n{output}")
            step = int(re.findall("resuming after step ([0-9]+)", output)[0])
            figures += [Figure(f"step of the resume after {end.name}", step, "", at_least=100, at_most=399),
                        Figure(f"distance after {end.name}", float((self.weights(end.name) - whole).norm() / whole.norm()), "",
                               at_most=3 * noise + 1e-6)]
        return figures

    def daemon(self, name):
        (self.work / "ranklogd.sock").unlink(missing_ok=True)  # of a killed one
        process = self.start(name, [self.service / "ranklogd", "--state-dir", self.work / "state"])
        wait_until(lambda: (self.work / "ranklogd.sock").exists(), "its socket", process, limit=20)
        return process

    def ask(self, *words):
        done = subprocess.run([self.service / "ranklog", *words, "--state-dir", self.work / "state"], capture_output=True, text=True, timeout=LIMIT,
                              env=os.environ | self.environment)
        expect(done.returncode == 0, f"ranklog {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def service_killed(self):
        expect(self.service, "--service is needed")
        daemon = self.daemon("ranklogd.1")
        steps = 3000
        training = self.start("service", [self.train, "--comm", "nccl", "--nproc-per-node", "gpu", "--model", "tiny", "--steps", steps, "--val-every", 0,
                                          "--log-every", 1], LOGGING)
        wait_until(lambda: "step " in training.output(), "its first step", training)
        time.sleep(1)  # rows of a second
        daemon.kill()
        expect(training.process.poll() is None, f"the training ended before the daemon:\n{training.output()}")
        time.sleep(1)  # rows that wait in the spools
        self.daemon("ranklogd.2")
        training.expect()
        self.ask("verify", "latest")
        loss = json.loads(self.ask("show", "latest", "--json"))["metrics"]["train/loss"]
        return [Figure("rows of train/loss", loss["count"], "", at_least=steps, at_most=steps)]

    def timed(self, name, command, environment=None):
        """Starts a rank that takes turns."""
        variables = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
        rank = self.start(name, command, variables | (environment or {}), pipes=True)
        line = rank.read_line()
        expect(line == "ready", f"{name} began with '{line}'")
        rank.take(20)  # the allocator and the clocks settle
        return rank

    def rank(self, model, environment=None):
        return self.timed(f"rank.{model}", [self.build / "tests" / "trainer_rank", "turns", model, "nccl"], environment)

    def logging(self):
        if self.service:  # else the rows stay in the spool
            self.daemon("ranklogd.3")
        rank = self.rank("gpt2", LOGGING)
        costs, seconds = [], []
        for pair in range(8):
            order = (False, True) if pair % 2 == 0 else (True, False)
            took = {log: rank.take(25, log) for log in order}
            costs.append(100 * (took[True] / took[False] - 1))
            seconds.append(took[False] / 25)
        return [Figure("cost", statistics.median(costs), "%", at_most=1, runs=costs, note=f"of a step of {1000 * statistics.median(seconds):.1f} ms")]

    def python(self):
        figures = []
        for model, steps in (("small", 200), ("gpt2", 20)):
            ours = self.rank(model)
            theirs = self.timed(f"python.{model}", [sys.executable, SOURCES / "tests/benchmarks/trainer/training_rank.py", model, "cuda"])
            ratios = []
            for pair in range(6):
                if pair % 2 == 0:
                    a, b = ours.take(steps), theirs.take(steps)
                else:
                    b, a = theirs.take(steps), ours.take(steps)
                ratios.append(b / a)
            figures.append(Figure(f"{model} over Python", statistics.median(ratios), "", at_least=1, runs=ratios,
                                  note=f"{number(steps * TOKENS[model] / a)} and {number(steps * TOKENS[model] / b)} tokens/s"))
            self.end_all()
        return figures

    def gpt2(self):
        rank = self.rank("gpt2")
        speed = 100 * TOKENS["gpt2"] / rank.take(100)
        used = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"], capture_output=True, text=True)
        self.end_all()
        output = self.start("gpt2", [self.train, "--comm", "nccl", "--model", "gpt2", "--dtype", "bfloat16", "--pad-vocab", 64, "--seq-len", 1024,
                                     "--batch-size", 16, "--steps", 200]).expect()
        losses = re.findall(r"step 200/200 +train/loss ([0-9.]+)", output)
        expect(losses, f"it took no 200 steps:\n{output}")
        return [Figure("speed", speed, "tokens/s", note=f"{speed * GPT2_FLOPS / 1e12:.0f} TFLOP/s"),
                Figure("memory of the GPU", float(used.stdout.split()[0]), "MiB"),
                Figure("loss after 200 steps", float(losses[-1]), "nats", at_most=3, note="10.8 at the start; bytes")]


TRIALS = {"gradients": Trials.gradients, "training": Trials.training, "placement": Trials.placement, "lost_rank": Trials.lost_rank,
          "resume": Trials.resume, "service": Trials.service_killed, "logging": Trials.logging, "python": Trials.python, "gpt2": Trials.gpt2}


def main():
    parser = argparse.ArgumentParser(description="Trains over NCCL on this machine's GPUs and judges the figures.", epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build directory: build/gpu, which tests/gpu_build.sh makes")
    parser.add_argument("--service", type=pathlib.Path, metavar="BIN", help="the directory of ranklogd and ranklog, for the trial `service`")
    parser.add_argument("--only", action="append", choices=TRIALS, metavar="TRIAL", help="run this one; may be given again")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()
    if not (options.build / "bin" / "ranklog-train").exists():
        parser.error(f"{options.build} has no bin/ranklog-train; tests/gpu_build.sh builds it")

    for ending in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(ending) != signal.SIG_IGN:  # as under nohup
            signal.signal(ending, lambda *_: sys.exit(1))  # what was started ends with us
    table, left_out = [], []
    with tempfile.TemporaryDirectory(prefix="ranklog-gpu.") as work:
        try:
            trials = Trials(options, pathlib.Path(work))
        except (Failure, OSError, subprocess.SubprocessError) as error:
            parser.error(f"nvidia-smi finds no GPU: {error}")
        for trial, run in TRIALS.items():
            if trial not in (options.only or TRIALS):
                continue
            if trial == "service" and not options.service and not options.only:
                say("== service: not run, since --service is not given")
                left_out = [trial]
                continue
            say(f"== {trial}")
            started, failures = time.time(), 0
            try:
                measured = run(trials)
            except Exception as error:  # the other trials go on
                measured, failures = [], 1
                say(f"   FAILED: {type(error).__name__}: {error}")
            finally:
                trials.end_all()
            for figure in measured:
                figure.name = f"{trial}: {figure.name}"
            table += [*measured, Figure(f"{trial}: failures", failures, "", at_most=0, note=f"{time.time() - started:.0f} s")]
    print(as_json(table) if options.json else text(table))
    missed = [figure.name for figure in table if figure.failed]
    say(f"missed: {', '.join(missed)}" if missed else f"all goals are met; not run: {', '.join(left_out)}" if left_out else "all goals are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

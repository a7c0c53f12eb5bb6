"""Tests with the real torchrun, or with other programs that start ranks."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import node

HERE = node.pathlib.Path(__file__).parent
TIMEOUT = 100  # on a busy machine, where each process imports torch


class TorchrunTest(node.NodeTest):
    def setUp(self):
        self._former = {run["run_id"] for run in self.runs()} if (self.dir / "state").exists() else set()

    def start(self, *command, **environment):
        """Starts a program, whose output goes to one pipe, in a process group of its own."""
        environment = {
            **self.environment,
            "RANKLOG_QUIET": "1",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(
            list(map(str, command)), env=environment, cwd=self.dir, text=True, start_new_session=True, **pipes
        )

    def wait_for(self, text, process, times=1):
        """Waits until a program has printed a text so many times."""
        watchdog = threading.Timer(TIMEOUT, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        output = ""
        while output.count(text) < times:
            line = process.stdout.readline()
            if not line:
                self.fail(f"the program has ended, and not printed {text!r}:\n{output}")
            output += line
        watchdog.cancel()

    def run_to_end(self, *command, code=0, **environment):
        """Runs a program, and returns what it printed."""
        process = self.start(*command, **environment)
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.fail(f"{command} has not ended after {TIMEOUT} s:\n{process.communicate()[0]}")
        self.assertEqual(process.returncode, code, output)
        return output

    def torchrun(self, ranks, *options):
        """The start of a command line. Append the script. Debian's torchrun 1.13 fails under Python 3.11 unless --redirects and
        --tee name one stream, and gives all jobs with --standalone one port."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        rendezvous = ["--rdzv_backend", "c10d", "--rdzv_endpoint", f"127.0.0.1:{port}", "--rdzv_id", f"job-{port}"]
        logs = ["--redirects", "1", "--tee", "1", "--log_dir", str(self.dir / "torchrun")]
        more = ["--monitor_interval", "0.2", "--nproc_per_node", str(ranks), *options]
        return [sys.executable, "-m", "torch.distributed.run", *rendezvous, *logs, *more]

    def new_runs(self, count=1):
        """Waits until the test's runs have ended, as many as it says. Returns them, oldest first."""

        def ended():
            runs = [run for run in self.runs()[::-1] if run["run_id"] not in self._former]
            return len(runs) >= count and all(run["state"] != "running" for run in runs) and runs

        runs = node.wait_for(ended, f"the end of {count} runs")
        self.assertEqual(len(runs), count, runs)
        return runs

    def rows_of_ranks(self, run):
        """What the ranks logged, in the order of rank and time."""
        return [json.loads(line) for line in self.cli("export", "--raw", run["run_id"]).splitlines()]

    def check_nothing_lost(self, run, ranks):
        self.assertEqual([(rank["rank"], rank["lost"]) for rank in run["ranks"]], [(rank, 0) for rank in range(ranks)])

    def train(self, ranks, case, *arguments, options=(), code=0, **environment):
        command = self.torchrun(ranks, *options)
        return self.run_to_end(*command, HERE / "torch_rank.py", case, *arguments, code=code, **environment)

    def check_steps(self, run, ranks, steps):
        """Each rank's rows are all there, in their order, with the values that it logged."""
        rows = self.rows_of_ranks(run)
        for rank in range(ranks):
            own = [row for row in rows if row["rank"] == rank]
            self.assertEqual([row["step"] for row in own], list(range(steps)), f"rank {rank}")
            self.assertEqual([row["values"]["loss"] for row in own], [1000.0 * rank + step for step in range(steps)])
        self.check_nothing_lost(run, ranks)

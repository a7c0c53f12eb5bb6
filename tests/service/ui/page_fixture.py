"""A node with real runs, and `ranklog ui` for its store: what the tests of the page look at."""

import os
import pathlib
import shutil
import subprocess
import sys
import time


def skip_without_browser():
    """Ends the process: skipped for a user, failed in CI, which must have all parts."""
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return
    print("absent: chromium and chromedriver (packages chromium, chromium-driver)")
    sys.exit(1 if os.environ.get("CI") else 77)


class Node:
    """A daemon with its own store, in `directory`."""

    def __init__(self, build, directory):
        self.build = pathlib.Path(build)
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, mode=0o700, exist_ok=True)
        (self.dir / "spool").mkdir(mode=0o700)
        self.state = str(self.dir / "state")
        drop = ("RANKLOG_", "WANDB_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "DISPLAY", "WAYLAND_DISPLAY")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
        self.environment.update(RANKLOG_SPOOL_DIR=str(self.dir / "spool"), RANKLOG_ADDRESS=f"unix:{self.dir}/d.sock", RANKLOG_DESTINATIONS="local",
                                RANKLOG_QUIET="1", HOME=str(self.dir), NETRC="/nonexistent")
        self.log = open(self.dir / "log", "wb")
        self.processes = [subprocess.Popen([self.build / "bin/ranklogd", "--state-dir", self.state, "--listen", f"unix:{self.dir}/d.sock", "--sample-interval", "100ms"],
                                           env=self.environment, stdout=self.log, stderr=self.log)]
        self.daemon = self.processes[0]
        self.await_that(lambda: (self.dir / "d.sock").exists(), "the daemon listens")

    def start_job(self, name, ranks, steps, metrics=6, pause_us=0, project="gpt", mode=None, **variables):
        """The processes of its ranks. `mode` is the last argument of page_rank; `variables` are added to their environment."""
        started = []
        for rank in range(ranks):
            environment = dict(self.environment, RANKLOG_PROJECT=project, RANKLOG_RUN_ID=name, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), **variables)
            started.append(subprocess.Popen([self.build / "tests/page_rank", str(steps), str(metrics), str(pause_us), *([mode] if mode else [])], env=environment, stdout=self.log, stderr=self.log))
        self.processes += started
        return started

    def run_job(self, *args, **kwargs):
        for rank in self.start_job(*args, **kwargs):
            assert rank.wait(120) == 0, self.words()

    def ranklog(self, *words):
        """The output of a `ranklog` command."""
        return subprocess.run([self.build / "bin/ranklog", *words, "--state-dir", self.state], env=self.environment, check=True, capture_output=True, text=True).stdout

    def serve(self, *dirs):
        """The process of `ranklog ui`, and its link."""
        words = [word for each in dirs or (self.state,) for word in ("--state-dir", each)]
        served = subprocess.Popen([self.build / "bin/ranklog", "ui", "--no-browser", *words], env=self.environment, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.processes.append(served)
        return served, served.stdout.readline().strip()

    def words(self):
        return (self.dir / "log").read_text(errors="replace")[-4000:]

    def await_that(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds} s: {what}\n{self.words()}"
            time.sleep(0.02)

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            process.wait()
        self.log.close()

#!/usr/bin/env python3
"""`ranklog ui` without a browser: what it leaves in a store, and what other users of the node can do to it.

serve_test.py BUILD_DIR
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

import page_fixture

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def can_be_nobody(path):
    """Whether this user may become another one, which may run the program at `path`."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return False
    return subprocess.run([*AS_NOBODY, path, "--version"], capture_output=True, check=False).returncode == 0


class Page:
    """A browser's part: signs in with the link, and reads data."""

    def __init__(self, link):
        self.base = link.split("/?")[0]
        with urllib.request.urlopen(link, timeout=30) as answer:
            self.cookie = answer.headers["Set-Cookie"].split(";")[0]

    def get(self, path):
        request = urllib.request.Request(self.base + path, headers={"Cookie": self.cookie})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="rl-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.node = page_fixture.Node(BUILD, f"{cls.temporary.name}/a")
        cls.addClassCleanup(cls.node.stop)
        cls.node.run_job("first", 2, 100)
        cls.node.await_that(lambda: '"state": "finished"' in cls.node.ranklog("runs", "--json"), "the run's rows are made")
        cls.node.daemon.terminate()
        cls.node.daemon.wait()

    def look_at_everything(self, link):
        page = Page(link)
        run = page.get("/api/runs")["runs"][0]
        for view in ("run", "summary", "curves", "system", "ranks", "console", "delivery", "artifacts"):
            page.get(f"/api/{view}?run={run['key']}")
        self.assertEqual(run["rows"], 100)

    def test_store_without_a_daemon_gets_no_files(self):
        before = sorted(os.listdir(self.node.state))
        self.assertFalse([name for name in before if name.endswith(("-shm", "-wal"))])
        served, link = self.node.serve()
        self.look_at_everything(link)
        served.terminate()
        served.wait()
        self.assertEqual(sorted(os.listdir(self.node.state)), before)

    def test_directory_that_cannot_be_written_is_shown(self):
        if not can_be_nobody(f"{BUILD}/bin/ranklog"):
            self.skipTest("absent: the right to become another user, and a build that this user may read")
        os.chmod(self.temporary.name, 0o755)
        with tempfile.TemporaryDirectory(prefix="rl-") as directory:
            os.chmod(directory, 0o755)
            copy = shutil.copytree(self.node.state, f"{directory}/state")
            for path in [copy, *pathlib.Path(copy).rglob("*")]:
                os.chmod(path, 0o555)
            served = subprocess.Popen([*AS_NOBODY, f"{BUILD}/bin/ranklog", "ui", "--no-browser", "--port", "7276", "--state-dir", copy], env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
                                      stdout=subprocess.PIPE, text=True)
            try:
                self.look_at_everything(served.stdout.readline().strip())
            finally:
                served.terminate()
                served.wait()
                served.stdout.close()


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)

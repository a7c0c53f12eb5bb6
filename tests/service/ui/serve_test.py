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

    # It could hold all threads of the server otherwise.
    def test_connections_of_another_user_are_cut(self):
        if not can_be_nobody("/bin/true"):
            self.skipTest("absent: the right to become another user")
        served, link = self.node.serve()
        page = Page(link)
        other = subprocess.Popen([*AS_NOBODY, shutil.which("python3", path="/usr/bin:/bin"), "-c", OTHER, str(urllib.parse.urlsplit(link).port)], stdout=subprocess.PIPE, text=True)
        self.assertEqual(other.stdout.readline(), "connected\n")
        page.get("/api/runs")  # waits for a thread, and gets one
        held = json.loads(other.communicate(timeout=60)[0])
        for kind, seconds in held.items():
            self.assertEqual(len(seconds), 30, kind)
            # 90 connections are more than the threads, so some wait for one, and for 2 s after that.
            self.assertLess(max(seconds), 8, kind)
        with open(f"/proc/{served.pid}/status", encoding="ascii") as file:
            threads = next(int(line.split()[1]) for line in file if line.startswith("Threads:"))
        self.assertLess(threads, 70)
        served.terminate()


# 30 connections that send nothing, 30 that send a byte at a time, and 30 that repeat a request without the token. Prints
# for how many seconds each was open.
OTHER = """
import json, selectors, socket, sys, time
port = int(sys.argv[1])
kinds = {"silent": b"", "slow": b"GET / HTTP/1.1\\r\\nX: " + b"x" * 1000, "asking": b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n"}
open_, held = {}, {kind: [] for kind in kinds}
for kind in list(kinds) * 30:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setblocking(False)
    open_[connection] = [kind, time.monotonic(), 0]
print("connected", flush=True)
end = time.monotonic() + 20
while open_ and time.monotonic() < end:
    for connection, place in list(open_.items()):
        kind, began, sent = place
        try:
            if kind == "slow":
                connection.send(kinds[kind][sent:sent + 1])
                place[2] += 1
            if kind == "asking":
                connection.send(kinds[kind])
            while connection.recv(65536):
                pass
        except BlockingIOError:
            continue
        except OSError:
            pass
        held[kind].append(time.monotonic() - began)
        del open_[connection]
    time.sleep(0.1)
print(json.dumps(held))
"""

if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)

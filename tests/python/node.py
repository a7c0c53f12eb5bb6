"""A node for tests: directories of its own, a real daemon that the first rank starts, and programs that log.

ctest sets RANKLOG_TEST_BIN, the folder of ranklogd and ranklog, and PYTHONPATH, the folder of the package.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from waiting import wait_for  # noqa: E402

BIN = pathlib.Path(os.environ["RANKLOG_TEST_BIN"])
DEADLINE = 60  # seconds


def require(module):
    """Skips the test if the module is absent; fails if CI is set."""
    try:
        __import__(module)
    except ImportError:
        if os.environ.get("CI"):
            raise
        raise unittest.SkipTest(f"absent: {module}") from None


class NodeTest(unittest.TestCase):
    """The tests of a class share the node, and each has one run of its own, the latest."""

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="rl-"))
        os.chmod(cls.dir, 0o700)
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "CI", "TMPDIR")}
        cls.environment = {
            **kept,
            "HOME": str(cls.dir),
            "RANKLOG_ADDRESS": f"unix:{cls.dir}/d.sock",
            "RANKLOG_STATE_DIR": str(cls.dir / "state"),
            "RANKLOG_SPOOL_DIR": str(cls.dir / "spool"),
            "RANKLOG_DAEMON": str(BIN / "ranklogd"),
            "RANKLOG_DESTINATIONS": "local",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        (cls.dir / "spool").mkdir(mode=0o700)

    @classmethod
    def tearDownClass(cls):
        subprocess.run([BIN / "ranklog", "stop"], env=cls.environment, capture_output=True, timeout=DEADLINE)
        shutil.rmtree(cls.dir, ignore_errors=True)

    def cli(self, *arguments, check=True):
        done = subprocess.run([BIN / "ranklog", *arguments], env=self.environment, cwd=self.dir, capture_output=True, text=True, timeout=DEADLINE)
        if check and done.returncode != 0:
            self.fail(f"ranklog {arguments} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def python(self, script, *arguments, code=0, env=None):
        """Runs a script, and returns what it printed. `code`: its expected end, negative for a signal."""
        file = self.dir / "train.py"
        file.write_text(textwrap.dedent(script))
        done = subprocess.run([sys.executable, file, *arguments], env={**self.environment, **(env or {})}, cwd=self.dir, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def runs(self):
        return json.loads(self.cli("runs", "--json"))

    def latest_in(self, state):
        """The latest run, once it is in that state."""

        def found():
            run = json.loads(self.cli("show", "latest", "--json"))
            return run["state"] == state and run

        return wait_for(found, f"a run in state {state}")

    def rows(self, run="latest"):
        """The rows without their time. NaN and infinities are floats."""
        rows = [json.loads(line) for line in self.cli("export", run, "--format", "jsonl").splitlines()]
        for row in rows:
            del row["_timestamp"]
        return rows

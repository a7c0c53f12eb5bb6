"""How a run ends with its process."""

import signal
import subprocess
import sys
import unittest

import node

BEGIN = """
import os, signal, sys, threading
import ranklog
run = ranklog.init()
run.log({'a': 1})
run.log({'b': 2}, commit=False)
"""
COMMITTED = [{"_step": 0, "a": 1}, {"_step": 1, "b": 2}]
KILLED = COMMITTED[:1]  # a row that waits for its commit is lost, as at W&B


class Ends(node.NodeTest):
    def check(self, end, code, state, exit_code, rows):
        printed = self.python(BEGIN + end, code=code)
        run = self.latest_in(state)
        if exit_code is not None:
            self.assertEqual(run["exit_code"], exit_code, run)
        self.assertEqual(self.rows(), rows)
        return printed

    def test_end_of_the_script(self):
        self.check("", 0, "finished", 0, COMMITTED)

    def test_exit_with_a_code(self):
        self.check("sys.exit(3)", 3, "failed", 3, COMMITTED)

    def test_exit_with_a_text(self):
        self.check("sys.exit('wrong')", 1, "failed", 1, COMMITTED)

    def test_exit_with_zero(self):
        self.check("sys.exit()", 0, "finished", 0, COMMITTED)

    def test_exception(self):
        printed = self.check("raise ValueError('the reason')", 1, "failed", 1, COMMITTED)
        self.assertIn("ValueError: the reason", printed)

    def test_former_hook_of_exceptions_is_called(self):
        printed = self.python("import sys\nsys.excepthook = lambda *_: print('former')\n" + BEGIN + "raise ValueError('x')", code=1)
        self.assertIn("former", printed)

    def test_ctrl_c(self):
        self.check("signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "failed", 130, COMMITTED)

    def test_ctrl_c_ends_the_wait_at_the_end(self):
        # No daemon takes the rows, so the process waits. The signal comes while it does.
        environment = {"RANKLOG_ADDRESS": f"unix:{self.dir}/none.sock", "RANKLOG_START_DAEMON": "0", "RANKLOG_FINISH_TIMEOUT_MS": "600000"}
        self.python(
            """
            import os, signal, subprocess, sys
            import ranklog
            ranklog.init().log({'a': 1})
            waits = f"while grep -q '^SigCgt:.*[2367abef]$' /proc/{os.getpid()}/status; do sleep 0.01; done; kill -INT {os.getpid()}"
            subprocess.Popen(["sh", "-c", waits])
            """,
            code=-signal.SIGINT,
            env=environment,
        )

    def without_daemon(self, script, finish_timeout):
        environment = {"RANKLOG_ADDRESS": f"unix:{self.dir}/none.sock", "RANKLOG_START_DAEMON": "0"}
        return self.python(script, env={**environment, "RANKLOG_FINISH_TIMEOUT_MS": str(round(finish_timeout * 1000))})

    CTRL_C = """
            import os, signal, threading, time
            import ranklog
            def interrupted(wait):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                start = time.monotonic()
                try:
                    wait()
                except KeyboardInterrupt:
                    assert time.monotonic() - start < 5, "late"
                else:
                    raise SystemExit("no KeyboardInterrupt")
    """

    def test_ctrl_c_ends_flush_wait_and_finish(self):
        self.without_daemon(self.CTRL_C + """
            run = ranklog.init()
            run.log({'a': 1})
            artifact = ranklog.Artifact("m", "model")
            artifact.add_file(__file__, policy="immutable")
            run.log_artifact(artifact)
            for wait in (lambda: run.flush(60), lambda: artifact.wait(60), run.finish):
                interrupted(wait)
            assert ranklog.run is None
        """, finish_timeout=60)  # fmt: skip

    def test_ctrl_c_ends_the_wait_for_delivery(self):
        self.python(self.CTRL_C + """
            run = ranklog.init(settings=ranklog.Settings(delivery_timeout=60))
            run.log({'a': 1})
            interrupted(run.finish)
        """, env={"RANKLOG_DESTINATIONS": "wandb", "WANDB_BASE_URL": "http://127.0.0.1:9", "RANKLOG_ALLOW_HTTP": "1", "WANDB_API_KEY": "0" * 40})  # fmt: skip
        self.assertEqual(self.rows(), [{"_step": 0, "a": 1}])

    def test_one_bound_for_all_that_waits(self):
        printed = self.without_daemon("""
            import atexit, time
            import ranklog
            atexit.register(lambda: print("exit", time.monotonic() - start))
            artifact = ranklog.Artifact("m", "model")
            artifact.add_file(__file__, policy="immutable")
            run = ranklog.init()
            run.log({'a': 1})
            run.log_artifact(artifact)
            start = time.monotonic()
            run.finish()
            print("finish", time.monotonic() - start)
            for run in [ranklog.init(reinit="create_new") for _ in range(4)]:
                run.log({'a': 1})
            start = time.monotonic()
        """, finish_timeout=1)  # fmt: skip
        took = {line.split()[0]: float(line.split()[1]) for line in printed.splitlines() if line.startswith(("exit", "finish"))}
        self.assertLess(took["finish"], 1.9)
        self.assertLess(took["exit"], 2.5)

    def test_immediate_exit(self):
        self.check("os._exit(4)", 4, "crashed", None, KILLED)

    def test_sigkill(self):
        self.check("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "crashed", None, KILLED)

    def test_sigterm_has_no_handler_of_ours(self):
        self.check("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "crashed", None, KILLED)

    def test_finish_with_a_code(self):
        self.check("ranklog.finish(5)", 0, "failed", 5, COMMITTED)

    def test_thread_that_logs_until_the_end(self):
        self.check("threading.Thread(target=lambda: [run.log({'a': i}) for i in range(100)], daemon=True).start(); run.finish()",
                   0, "finished", 0, self.any_rows())  # fmt: skip

    def any_rows(self):
        class Any:
            def __eq__(self, other):
                return other[:1] == KILLED

        return Any()

    def test_prints_before_the_end_are_in_the_console(self):
        # In a pipe, Python keeps them in its buffer. What it prints later is not the run's.
        ends = "print('before')\nrun.finish()\nimport time\ntime.sleep(0.5)\nprint('after')\n"
        for through, begin in (([node.BIN / "ranklog", "exec", "--"], BEGIN), ([], BEGIN.replace("init()", "init(settings={'console': 'wrap'})"))):
            with self.subTest(through=through):
                (self.dir / "train.py").write_text(begin + ends)
                subprocess.run([*through, sys.executable, "train.py"], env={**self.environment, "RANKLOG_QUIET": "1"}, cwd=self.dir, stdout=subprocess.DEVNULL,
                               timeout=node.DEADLINE, check=True)  # fmt: skip
                self.latest_in("finished")
                self.assertEqual(self.cli("logs", "latest").splitlines(), ["before"])

if __name__ == "__main__":
    unittest.main()

"""Forked children, pools, and runs that are passed to other processes."""

import unittest

import node


class Processes(node.NodeTest):
    def test_forked_child_logs_and_does_not_finish_the_run(self):
        self.python("""
            import os, sys
            import ranklog
            run = ranklog.init()
            run.log({"parent": 1}, step=0)
            run.log({"waits": 1}, commit=False)
            child = os.fork()
            if child == 0:
                run.log({"child": 1}, step=1)
                run.flush()
                sys.exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            run.log({"parent": 2}, step=2)
        """)
        run = self.latest_in("finished")
        self.assertEqual(run["exit_code"], 0)
        self.assertEqual(self.rows(), [{"_step": 0, "parent": 1, "waits": 1}, {"_step": 1, "child": 1}, {"_step": 2, "parent": 2}])

    def test_child_of_multiprocessing_logs_to_the_run_of_its_parent(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.python(f"""
                    import multiprocessing
                    import ranklog

                    def child(run):
                        run.log({{"child": 1}}, step=5)
                        run.flush()

                    if __name__ == "__main__":
                        run = ranklog.init()
                        run.log({{"parent": 1}}, step=4)
                        process = multiprocessing.get_context("{method}").Process(target=child, args=(run,))
                        process.start()
                        process.join()
                        assert process.exitcode == 0
                        run.log({{"parent": 2}}, step=6)
                """)
                self.latest_in("finished")
                self.assertEqual(self.rows(), [{"_step": 4, "parent": 1}, {"_step": 5, "child": 1}, {"_step": 6, "parent": 2}])

    def test_each_process_of_a_pool_opens_its_own_run(self):
        for method in ("fork", "spawn"):
            with self.subTest(method):
                project = f"pool-{method}"
                self.python(f"""
                    import multiprocessing
                    import ranklog

                    def work(number):
                        with ranklog.init(project="{project}", name=f"w{{number}}", reinit=True) as run:
                            run.log({{"number": number}})
                        return run.id

                    if __name__ == "__main__":
                        ranklog.setup({{"run_notes": "of setup"}})
                        parent = ranklog.init(project="{project}", name="parent")
                        with multiprocessing.get_context("{method}").Pool(3) as pool:
                            ids = pool.map(work, range(6), chunksize=1)
                        assert len(set(ids)) == 6 and parent.id not in ids, ids
                        parent.log({{"number": -1}})
                """)

                def ended():
                    runs = [run for run in self.runs() if run["project"] == project]
                    return len(runs) == 7 and all(run["state"] == "finished" for run in runs) and runs

                runs = node.wait_for(ended, "the end of all runs of the pool")
                for run in runs:
                    number = -1 if run["name"] == "parent" else int(run["name"][1:])
                    self.assertEqual(self.rows(run["run_id"]), [{"_step": 0, "number": number}])

    def test_run_of_a_child_ends_with_the_child(self):
        for code, state in ((0, "finished"), (1, "failed")):
            with self.subTest(state):
                self.python(f"""
                    import multiprocessing
                    import ranklog

                    def child():
                        ranklog.init(project="child-{state}").log({{"a": 1}})
                        if {code}:
                            raise ValueError("the child fails")

                    if __name__ == "__main__":
                        process = multiprocessing.get_context("fork").Process(target=child)
                        process.start()
                        process.join()
                        assert process.exitcode == {code}
                """)
                run = self.latest_in(state)
                self.assertEqual((run["project"], run["exit_code"]), (f"child-{state}", code))

    def test_handle_joins_from_another_program(self):
        self.python("""
            import os, subprocess, sys
            import ranklog
            run = ranklog.init()
            run.log({"maker": 1})
            program = "import ranklog; run = ranklog.init(); run.log({'joined': 1}); print(run.id); run.finish()"
            printed = subprocess.run([sys.executable, "-c", program], env={**os.environ, "RANKLOG_HANDLE": run.handle()}, check=True, capture_output=True, text=True)
            assert printed.stdout.strip() == run.id, printed
            program = "import sys, ranklog; ranklog.attach(sys.argv[1]); ranklog.log({'attached': 1})"
            subprocess.run([sys.executable, "-c", program, run.handle()], check=True)
            run.log({"maker": 2})
        """)
        self.latest_in("finished")
        self.assertEqual(self.rows(), [{"_step": 0, "maker": 1}, {"_step": 1, "joined": 1}, {"_step": 2, "attached": 1}, {"_step": 3, "maker": 2}])

    def test_pickle_in_the_same_process_is_the_same_run(self):
        self.python("""
            import copy, pickle
            import ranklog
            run = ranklog.init()
            assert pickle.loads(pickle.dumps(run)) is run and copy.deepcopy(run) is run
            run.log({"a": 1})
        """)
        self.assertEqual(self.rows(), [{"_step": 0, "a": 1}])


if __name__ == "__main__":
    unittest.main()

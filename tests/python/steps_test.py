"""The rules about step and commit: those of W&B's package, with its results."""

import unittest

import node


class Steps(node.NodeTest):
    def check(self, calls, expected, steps):
        """`steps`: run.step after each call."""
        printed = self.python(f"""
            import ranklog
            run = ranklog.init()
            for arguments in {calls!r}:
                run.log(*arguments[:1], **(arguments[1] if len(arguments) > 1 else {{}}))
                print(run.step, end=' ')
            run.finish()
        """)
        self.assertIn(" ".join(map(str, steps)), printed)
        self.assertEqual(self.rows(), expected)

    def test_rows_count_from_zero(self):
        self.check([({"a": 1},), ({"a": 2},), ({}, ), ({"a": 3},)], [{"_step": 0, "a": 1}, {"_step": 1, "a": 2}, {"_step": 3, "a": 3}], [1, 2, 3, 4])

    def test_equal_steps_are_one_row(self):
        self.check([({"a": 1}, {"step": 5}), ({"b": 2}, {"step": 5}), ({"a": 3}, {"step": 9})],
                   [{"_step": 5, "a": 1, "b": 2}, {"_step": 9, "a": 3}], [5, 5, 9])

    def test_without_a_step_joins_and_closes_the_open_one(self):
        self.check([({"a": 1}, {"step": 5}), ({"b": 2},), ({"c": 3},)], [{"_step": 5, "a": 1, "b": 2}, {"_step": 6, "c": 3}], [5, 6, 7])

    def test_no_commit_waits_for_the_next_row(self):
        self.check([({"a": 1}, {"commit": False}), ({"b": 2}, {"commit": False}), ({"c": 3},), ({"d": 4},)],
                   [{"_step": 0, "a": 1, "b": 2, "c": 3}, {"_step": 1, "d": 4}], [0, 0, 1, 2])

    def test_no_commit_joins_an_open_step(self):
        self.check([({"a": 1}, {"step": 3}), ({"b": 2}, {"commit": False}), ({"c": 3}, {"step": 4})],
                   [{"_step": 3, "a": 1, "b": 2}, {"_step": 4, "c": 3}], [3, 3, 4])

    def test_no_commit_before_a_larger_step_is_a_row_of_its_own(self):
        self.check([({"a": 1}, {"commit": False}), ({"b": 2}, {"step": 7})], [{"_step": 0, "a": 1}, {"_step": 7, "b": 2}], [0, 7])

    def test_no_commit_before_its_own_step_joins_it(self):
        self.check([({"a": 0},), ({"a": 1}, {"commit": False}), ({"b": 2}, {"step": 1}), ({"c": 3}, {"step": 1})],
                   [{"_step": 0, "a": 0}, {"_step": 1, "a": 1, "b": 2, "c": 3}], [1, 1, 1, 1])

    def test_commit_closes_a_given_step(self):
        self.check([({"a": 1}, {"step": 4, "commit": True}), ({"b": 2},), ({"c": 3}, {"commit": True})],
                   [{"_step": 4, "a": 1}, {"_step": 5, "b": 2}, {"_step": 6, "c": 3}], [5, 6, 7])

    def test_row_that_waits_at_the_end_is_logged(self):
        self.check([({"a": 1},), ({"b": 2}, {"commit": False})], [{"_step": 0, "a": 1}, {"_step": 1, "b": 2}], [1, 1])

    def test_smaller_step_is_refused(self):
        printed = self.python("""
            import ranklog
            run = ranklog.init()
            run.log({'a': 1}, step=5)
            run.log({'a': 2}, step=4)
            run.log({'a': 3}, step=3)
            print(run.stats['lost_step_behind'])
            assert (run.step, run.summary["a"]) == (5, 1)
            run.finish()
        """)
        self.assertIn("rows refused", printed)
        self.assertIn("\n2\n", "\n" + printed)
        self.assertEqual(self.rows(), [{"_step": 5, "a": 1}])

    def test_refused_row_changes_nothing_else(self):
        self.check([({"b": 1},), ({"b": 2}, {"step": 0, "commit": True}), ({"a": 3},)], [{"_step": 0, "b": 1}, {"_step": 1, "a": 3}], [1, 1, 2])
        self.check([({"a": 0},), ({"p": 1}, {"commit": False}), ({"b": 2}, {"step": 0}), ({"c": 3},)],
                   [{"_step": 0, "a": 0}, {"_step": 1, "p": 1, "c": 3}], [1, 1, 1, 2])


if __name__ == "__main__":
    unittest.main()

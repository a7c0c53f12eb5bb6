#!/usr/bin/env python3
"""The local page in a real browser, on a real store, with real ranks. A message in the browser's console fails the test.

page_test.py BUILD_DIR [SCREENSHOT_DIR]
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import page_fixture
from browser import Browser

ENTER, ESCAPE = "\ue007", "\ue00c"
CHART = "document.querySelector('[data-title=\"{}\"]').chart"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="rl-")
        cls.node = page_fixture.Node(BUILD, f"{cls.temporary.name}/a")
        cls.other = page_fixture.Node(BUILD, f"{cls.temporary.name}/b")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.addClassCleanup(cls.node.stop)
        cls.addClassCleanup(cls.other.stop)
        cls.node.run_job("first", 4, 900, pause_us=500)  # long enough for samples of the node
        cls.node.run_job("second", 1, 300, metrics=5)
        cls.node.run_job("odd", 1, 200, mode="odd", RANKLOG_NOTES="first line\n<b>second</b> line", RANKLOG_TAGS="a,b")
        cls.other.run_job("elsewhere", 1, 50, project="bert")
        # Its trackers do not answer, and one of its rows is refused.
        cls.other.run_job("waiting", 1, 40, project="bert", mode="lossy", RANKLOG_DESTINATIONS="wandb,mlflow", WANDB_BASE_URL="http://127.0.0.1:9", WANDB_API_KEY="0" * 40,
                          MLFLOW_TRACKING_URI="http://127.0.0.1:9")
        _, cls.link = cls.node.serve(cls.node.state, cls.other.state)
        cls.base = cls.link.split("/?")[0]
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.browser.open(cls.link)
        cls.browser.wait("document.querySelectorAll('table.runs tbody tr').length === 5")
        runs = cls.browser.run("return (await (await fetch('/api/runs')).json()).runs")
        cls.keys = {run["run_id"]: run["key"] for run in runs}

    def setUp(self):
        self.browser.size(1200, 900)
        self.browser.run("localStorage.clear()")
        self.browser.errors()

    def tearDown(self):
        self.assertEqual(self.browser.errors(), [])
        self.assertNotIn("hacked", self.browser.run("return document.title"))

    def open(self, view="", wait="document.querySelector('main h1, table.runs')"):
        self.browser.open("about:blank")
        self.browser.open(f"{self.base}/#/{view}")
        self.browser.wait(wait)

    def open_run(self, name, tab="", wait="document.querySelector('main h1')"):
        self.open(f"run/{','.join(self.keys[each] for each in name.split(','))}/{tab}", wait)

    def text(self, selector="main"):
        return self.browser.run("return document.querySelector(args[0]).innerText", selector)

    def names(self):
        """Of the runs in the table, without those that tests start."""
        names = self.browser.run("return [...document.querySelectorAll('table.runs td:first-child a')].map((a) => a.textContent)")
        return [name for name in names if name not in ("live", "many")]

    def keep(self, name):
        if SCREENSHOTS:
            self.browser.screenshot(SCREENSHOTS / f"{name}.png")

    # The runs.

    def test_runs_of_all_stores_are_listed_newest_first(self):
        self.open()
        self.assertEqual(self.names(), ["waiting", "elsewhere", "odd", "second", "first"])
        self.assertIn("finished", self.text("table.runs"))
        self.keep("runs")

    def test_filter_sort_and_groups_are_in_the_url(self):
        self.open()
        self.browser.press("/")
        for letter in "gpt sec":
            self.browser.press(letter)
        self.browser.wait("document.querySelectorAll('table.runs td:first-child a').length === 1")
        self.assertIn("filter=gpt+sec", self.browser.run("return location.hash"))
        self.open("?group=store&sort=name")
        self.assertEqual(self.names(), ["elsewhere", "waiting", "first", "odd", "second"])
        self.assertIn(self.other.state, self.text("table.runs"))

    def test_keys_open_and_compare_runs(self):
        self.open()
        for key in "jjjj" + ENTER:
            self.browser.press(key)
        self.browser.wait("location.hash.startsWith('#/run/') && document.querySelector('h1')?.textContent.startsWith('second')")
        self.browser.press("2")
        self.browser.wait("location.hash.endsWith('/ranks')")
        self.browser.press("u")
        self.browser.wait("document.querySelector('table.runs')")
        self.browser.press("?")
        self.assertTrue(self.browser.run("return document.querySelector('dialog').open"))
        self.browser.press(ESCAPE)
        for key in "jjxjx":
            self.browser.press(key)
        self.assertEqual(self.text("a.button"), "compare 2 runs")

    # The curves.

    def test_points_are_those_of_the_run(self):
        rows = [json.loads(line) for line in self.node.ranklog("export", "first").splitlines()]
        expected = [[row["_step"] for row in rows], [row["train/loss"] for row in rows]]
        self.open_run("first", "curves", f"{CHART.format('train/loss')}?.plot")
        line = self.browser.run(f"const line = {CHART.format('train/loss')}.lines.at(-1); return [line.x, line.y]")
        self.assertEqual(line, expected)
        self.keep("curves")

    def test_ranks_that_differ_have_a_band(self):
        self.open_run("first", "curves", f"{CHART.format('train/loss')}?.plot")
        rows = [json.loads(line) for line in self.node.ranklog("export", "first").splitlines()]
        high, low = self.browser.run(f"const c = {CHART.format('train/loss')}; return c.bands[0].map((i) => c.lines[i].y)")
        self.assertEqual(high, [row["rank_max/train/loss"] for row in rows])
        self.assertEqual(low, [row["rank_min/train/loss"] for row in rows])
        self.assertEqual(self.browser.run(f"return {CHART.format('lr')}.bands"), [], "all ranks have the same lr")

    def test_zoom_is_shared(self):
        self.open_run("first", "curves", f"{CHART.format('lr')}?.plot && {CHART.format('train/loss')}?.plot")
        self.browser.run(f"{CHART.format('lr')}.plot.setScale('x', {{min: 100, max: 200}})")
        self.browser.wait(f"{CHART.format('train/loss')}.plot.scales.x.max === 200")
        self.browser.press(ESCAPE)
        self.browser.wait(f"{CHART.format('train/loss')}.plot.scales.x.max === 899")

    def test_axes_smoothing_and_pins(self):
        self.open_run("first", "curves?smooth=0.9&log=1&x=minutes", f"{CHART.format('train/loss')}?.plot")
        chart = self.browser.run(f"const c = {CHART.format('train/loss')}; return [c.lines.at(-1).x.at(-1), c.lines.at(-1).y, c.lines.at(-2).y, c.plot.scales.y.distr]")
        self.assertLess(chart[0], 2, "minutes")
        self.assertLess(max(abs(a - b) for a, b in zip(chart[1][1:], chart[1])), max(abs(a - b) for a, b in zip(chart[2][1:], chart[2])))
        self.assertEqual(chart[3], 3, "logarithmic")
        self.browser.run("document.querySelector('[data-title=\"lr\"] .pin').click()")
        self.open_run("first", "curves", "document.querySelector('details.section summary').innerText.startsWith('pinned')")

    # A touch screen has no Esc and no second click.
    def test_a_button_zooms_out_and_one_enlarges(self):
        self.open_run("first", "curves", f"{CHART.format('lr')}?.plot")
        button = "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'zoom out')"
        self.assertTrue(self.browser.run(f"return {button}.hidden"))
        self.browser.run(f"{CHART.format('lr')}.plot.setScale('x', {{min: 100, max: 200}})")
        self.browser.wait(f"!{button}.hidden")
        self.browser.run(f"{button}.click()")
        self.browser.wait(f"{CHART.format('lr')}.plot.scales.x.max === 899 && {button}.hidden")
        before = self.browser.run(f"const {{plot}} = {CHART.format('lr')}; return [plot.width, plot.height]")
        self.browser.run("document.querySelector('[data-title=\"lr\"]').focus()")
        self.browser.press(ENTER)
        self.browser.wait(f"{CHART.format('lr')}.plot.width > {before[0]} && {CHART.format('lr')}.plot.height > {before[1]}")
        self.keep("enlarged")
        self.browser.press(ENTER)
        self.browser.wait(f"{CHART.format('lr')}.plot.width === {before[0]} && {CHART.format('lr')}.plot.height === {before[1]}")

    def test_a_first_zero_does_not_prevent_a_logarithmic_axis(self):
        self.open_run("first", "curves?log=1", f"{CHART.format('lr')}?.plot")
        lr = self.browser.run(f"const c = {CHART.format('lr')}; return [c.lines.at(-1).y.slice(0, 2).map((y) => y > 0), c.plot.scales.y.distr, c.plot.scales.y.min]")
        self.assertEqual(lr[:2], [[False, True], 3])
        self.assertGreater(lr[2], 0)
        self.assertNotEqual(self.browser.run(f"return {CHART.format('extra/0')}.plot.scales.y.distr"), 3, "half of its values are negative")

    def test_run_is_removed_from_an_overlay(self):
        self.open_run("first,second,odd", "curves", f"{CHART.format('train/loss')}?.plot")
        self.browser.run("document.querySelector('[aria-label=\"Remove second\"]').click()")
        self.browser.wait(f"location.hash.endsWith('{self.keys['first']},{self.keys['odd']}/curves') && document.querySelector('h1').textContent === '2 runs'")

    def test_runs_are_overlaid(self):
        self.open_run("first,second", "curves", f"{CHART.format('train/loss')}?.plot")
        self.assertEqual(self.browser.run(f"return {CHART.format('train/loss')}.lines.map((line) => [line.label, line.x.length])"), [["first", 900], ["second", 300]])

    def test_charts_have_a_table_for_screen_readers(self):
        self.open_run("first", "curves", f"{CHART.format('train/loss')}?.plot")
        self.browser.run("document.querySelector('[data-title=\"train/loss\"] details').open = true")
        self.browser.wait("document.querySelectorAll('[data-title=\"train/loss\"] tbody tr').length > 40")

    def test_nan_and_infinities_are_gaps_with_a_count(self):
        self.open_run("odd", "curves", f"{CHART.format('train/loss')}?.plot")
        line = self.browser.run(f"return {CHART.format('train/loss')}.lines.at(-1)")
        self.assertEqual([x for x, y in zip(line["x"], line["y"]) if y is None], [*range(50, 55), *range(56, 60), 100, 150])
        self.assertEqual(line["odd"]["text"], "9 NaN, 1 inf, 1 -inf, first at step 50")
        self.assertIn(line["odd"]["text"], self.text("[data-title='train/loss'] .legend"))
        self.assertIn("NaN", self.text("[data-title='diverged'] .legend b"))
        alone = self.browser.run(f"const c = {CHART.format('train/loss')}; return c.plot.series[1].points.filter(c.plot, 1)")
        self.assertEqual(alone, [55], "a dot, because a line of one point is invisible")
        self.browser.run("document.querySelector('[data-title=\"train/loss\"] details').open = true")
        self.browser.wait("document.querySelectorAll('[data-title=\"train/loss\"] tbody tr').length > 40")
        table = self.text("[data-title='train/loss'] details")
        self.assertIn(line["odd"]["text"], table)
        self.assertIn("52\tNaN\n", table)
        self.assertIn("100\tinf\n", table)
        self.keep("odd")
        for x in ("time", "minutes"):
            self.open_run("odd", f"curves?x={x}", f"{CHART.format('train/loss')}?.plot")
            self.assertEqual(self.browser.run(f"return {CHART.format('train/loss')}.lines.at(-1).y.filter((y) => y === null).length"), 11)
        self.open_run("odd", "facts", "document.querySelectorAll('main table').length === 4")
        self.assertIn("diverged\tNaN", self.text())
        self.assertIn("notes\tfirst line\n<b>second</b> line\ntags\ta, b\n", self.text())
        self.open_run("odd", "ranks?metric=diverged", "document.querySelector('.verdict .bad')")
        self.assertIn("NaN or infinite: rank 0.", self.text(".verdict"))

    def test_metrics_with_names_of_javascript_have_curves(self):
        for name in ("__proto__", "constructor"):
            for x in ("step", "minutes"):
                self.open_run("odd", f"curves?filter={name}&x={x}", f"{CHART.format(name)}?.plot")
                self.assertEqual(self.browser.run(f"return {CHART.format(name)}.lines.at(-1).y"), list(range(200)))

    def test_integers_beyond_doubles_have_curves(self):
        self.open_run("odd", "curves?filter=tokens", f"{CHART.format('tokens')}?.plot")
        line = self.browser.run(f"return {CHART.format('tokens')}.lines.at(-1)")
        self.assertEqual(line["x"], list(range(200)))
        self.assertEqual(line["y"], [float(2**53 - 100 + x) for x in range(200)])
        self.open_run("odd", "facts", "document.querySelector('main table')")
        self.browser.wait("document.querySelector('main').innerText.includes('tokens')")
        self.assertIn(f"tokens\t{2**53 + 99}\n", self.text())

    # The other views.

    def test_slowest_rank_is_named(self):  # S51
        self.open_run("first", "ranks", "document.querySelector('.verdict b')")
        self.assertIn("rank 3", self.text(".verdict"))
        cells = self.browser.run("const c = document.querySelector('canvas.heat'); return [c.width, c.height, [...c.getContext('2d').getImageData(5, 3, 1, 1).data]]")
        self.assertEqual(cells[1], 4)
        self.assertGreater(cells[2][0], cells[2][2], "the slowest rank is yellow")
        self.keep("ranks")

    def test_system_metrics_of_the_node(self):
        self.open_run("first", "system", "[...document.querySelectorAll('.chart')].some((c) => c.chart.plot)")
        self.assertIn("cpu", self.text())

    def test_texts_of_users_are_texts(self):
        self.open_run("first", "facts", "document.querySelector('table')")
        self.assertIn("<img src=x onerror=", self.text())
        self.assertEqual(self.browser.run("return document.querySelectorAll('main img').length"), 0)
        self.open_run("first", "console", "document.querySelector('pre')?.childElementCount > 0")
        self.assertIn("<script>document.title='hacked'</script> red\n", self.text("pre"))
        self.assertIn("rank 0: step 800", self.text("pre"))

    def test_differences_between_runs(self):
        self.open_run("first,second", "facts", "document.querySelector('table')")
        self.assertIn("world_size", self.text("table"))
        self.assertNotIn("model.layers", self.text("table"))

    def test_verify_is_a_command_that_works(self):
        self.open_run("first", "delivery", "document.querySelector('.command code')")
        command = self.text(".command code")
        done = subprocess.run(command, shell=True, env=dict(self.node.environment, PATH=f"{BUILD}/bin:{self.node.environment['PATH']}"), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, command + done.stdout + done.stderr)
        self.browser.run("document.querySelector('.command button').click()")
        self.browser.wait("document.querySelector('.command .said').textContent")
        self.keep("delivery")

    def test_what_waits_and_what_is_lost_is_shown_at_once(self):
        self.open("?filter=waiting", "document.querySelectorAll('table.runs .bad').length === 2")
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('table.runs .bad')].map((e) => e.textContent)"), ["mlflow: 0 %, wandb: 0 %", "1 lost"])
        self.open_run("waiting", "delivery", "document.querySelectorAll('.card .error').length === 2")
        for kind, card in zip(("mlflow", "wandb"), self.browser.run("return [...document.querySelectorAll('.card')].map((e) => e.innerText)")):
            self.assertTrue(card.startswith(kind), card)
            self.assertIn("queued 40", card)
            self.assertIn("files queued 1", card)
            self.assertIn("127.0.0.1", card)
        self.assertIn("weights\tmodel\tlatest", self.text())
        self.assertIn("step_behind 1", self.text("table"))
        self.assertIn("missing: 1 lost", self.text(".head"))

    def test_live_run_grows_until_it_has_ended(self):
        ranks = self.node.start_job("live", 2, 1500, pause_us=4000, mode="silent")
        self.open("", "[...document.querySelectorAll('table.runs a')].some((a) => a.textContent === 'live')")
        self.browser.run("[...document.querySelectorAll('table.runs a')].find((a) => a.textContent === 'live').click()")
        last = f"{CHART.format('train/loss')}?.lines?.at(-1).x.at(-1)"
        first = self.browser.wait(last)
        self.browser.wait(f"{last} > {first}")
        self.browser.wait("document.querySelector('.state').textContent.includes('finished')", 60)
        self.browser.wait(f"{last} === 1499")
        points = self.browser.run(f"return {CHART.format('train/loss')}.lines.at(-1).x")
        self.assertEqual(points, sorted(set(points)))
        self.assertEqual([rank.wait() for rank in ranks], [0, 0])

    # A browser opens six connections to a server.
    def test_windows_beyond_six_connections_are_live(self):
        ranks = self.node.start_job("many", 1, 30000, pause_us=10000, mode="silent")  # longer than a busy browser takes
        self.browser.run("while (!(await (await fetch('/api/runs')).json()).runs.some((run) => run.run_id === 'many')) await new Promise((f) => setTimeout(f, 50))")
        runs = self.browser.run("return (await (await fetch('/api/runs')).json()).runs")
        key = next(run["key"] for run in runs if run["run_id"] == "many")
        with self.browser.windows(7) as windows:
            for i, window in enumerate(windows):
                self.browser.focus(window)
                self.browser.open(f"{self.base}/#/" if i == 7 else f"{self.base}/#/run/{key}")
            self.assertEqual(len(windows), 8)
            for i, window in enumerate(windows):
                self.browser.focus(window)
                self.assertEqual(self.browser.run("return document.visibilityState"), "visible")
                rows = "[...document.querySelectorAll('tbody tr')].find((tr) => tr.textContent.includes('many'))?.children[4].textContent" if i == 7 else f"{CHART.format('train/loss')}?.lines?.at(-1).x.at(-1)"
                first = self.browser.wait(rows)
                self.browser.wait(f"({rows}) !== {json.dumps(first)}")
        for rank in ranks:
            rank.terminate()

    def test_page_says_that_it_is_no_longer_live(self):
        served, link = self.node.serve()
        self.browser.open(link)
        self.browser.wait("document.querySelector('table.runs')")
        self.assertEqual(self.text("#live"), "")
        served.terminate()
        self.browser.wait("document.querySelector('#live').textContent.startsWith('not live')")
        self.browser.open(self.base)
        self.browser.errors()  # of the connection

    def test_every_view_fits_a_phone_in_light_and_dark(self):
        for dark in (False, True):
            self.browser.size(400, 800, dark)
            for tab in ("curves", "ranks", "system", "facts", "delivery", "console"):
                self.open_run("first", tab, "document.querySelector('main section:last-child').childElementCount > 0")
                self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 400, tab)
            self.keep(f"phone_{'dark' if dark else 'light'}")

    def test_unknown_run_is_an_error_on_the_page(self):
        self.browser.open("about:blank")
        self.browser.open(f"{self.base}/#/run/0-999")
        self.browser.wait("document.querySelector('.error')")
        self.assertTrue(all("404" in error for error in self.browser.errors()))

    def test_a_file_has_the_page_without_a_server(self):
        file = f"{self.temporary.name}/run.html"
        self.node.ranklog("show", "first", "--html", file)
        self.browser.open(f"file://{file}")
        self.browser.wait(f"{CHART.format('train/loss')}?.plot")
        self.assertEqual(self.browser.run(f"return {CHART.format('train/loss')}.lines.at(-1).x.length"), 900)
        for tab, wait in (("Ranks", ".verdict b"), ("Config and summary", "table"), ("Delivery", ".command code"), ("Console", "pre span"), ("System", ".chart"), ("Curves", ".charts")):
            self.browser.run("[...document.querySelectorAll('nav.tabs a')].find((a) => a.textContent === args[0]).click()", tab)
            self.browser.wait(f"document.querySelector('{wait}')")
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').map((each) => each.name)"), [])
        self.browser.open(self.base)  # so that localStorage may be cleared


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    SCREENSHOTS = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    page_fixture.skip_without_browser()
    if SCREENSHOTS:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)

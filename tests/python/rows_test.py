"""What values and keys become in a row (S49)."""

import math
import unittest

import node


class Rows(node.NodeTest):
    def row(self, values, prelude=""):
        self.python(f"import ranklog\n{prelude}\nranklog.init().log({values})\nranklog.finish()")
        (row,) = self.rows()
        del row["_step"]
        return row

    def test_python_values(self):
        row = self.row("{'f': 0.5, 'i': 7, 'b': True, 's': 'text', 'none': None, 'large': 2**60, 'over': 2**70, 'u': 2**63 + 1}")
        self.assertEqual(row, {"f": 0.5, "i": 7, "b": True, "s": "text", "large": 2**60, "over": 2**70, "u": 2**63 + 1})
        self.assertIs(row["b"], True)

    def test_not_finite_values(self):
        row = self.row("{'nan': float('nan'), 'inf': float('inf'), 'minus': -float('inf')}")
        self.assertTrue(math.isnan(row["nan"]))
        self.assertEqual((row["inf"], row["minus"]), (math.inf, -math.inf))

    def test_nested_values(self):
        row = self.row("{'d': {'a': 1, 'b': {'c': [1, 2.5, 'x', None]}}, 't': (1, 2), 'set': {3}}")
        self.assertEqual(row, {"d": {"a": 1, "b": {"c": [1, 2.5, "x", None]}}, "t": [1, 2], "set": [3]})

    def test_other_values_become_texts(self):
        row = self.row(
            "{'path': pathlib.Path('a/b'), 'day': datetime.date(2026, 1, 2), 'enum': Color.RED, 'data': Point(1, 2), 'bytes': b'x', 'bad': Bad()}",
            """
import dataclasses, datetime, enum, pathlib
class Color(enum.Enum):
    RED = 1
@dataclasses.dataclass
class Point:
    x: int
    y: int
class Bad:
    def __str__(self):
        raise RuntimeError('no text')
""",
        )
        self.assertEqual(row, {"path": "a/b", "day": "2026-01-02", "enum": "RED", "data": {"x": 1, "y": 2}, "bytes": "x", "bad": "<Bad>"})

    def test_value_that_contains_itself(self):
        row = self.row("{'own': own, 'a': 1}", "own = []\nown.append(own)")
        self.assertEqual(row, {"a": 1})  # deeper than 32 levels: left out, and counted

    def test_texts_that_are_not_utf8(self):
        self.assertEqual(self.row(r"{'s': 'a\ud800b', 'umlaut': 'ü'}"), {"s": "a?b", "umlaut": "ü"})

    def test_numpy_values(self):
        node.require("numpy")
        row = self.row(
            "{'f32': numpy.float32(1.5), 'f64': numpy.float64(2.5), 'f16': numpy.float16(0.5), 'i': numpy.int64(7), 'u': numpy.uint8(255), "
            "'b': numpy.bool_(True), 'zero': numpy.array(3.0), 'one': numpy.array([4]), 'list': numpy.arange(3), 'many': numpy.arange(100)}",
            "import numpy",
        )
        histogram = row.pop("many")
        self.assertEqual(row, {"f32": 1.5, "f64": 2.5, "f16": 0.5, "i": 7, "u": 255, "b": True, "zero": 3, "one": 4, "list": [0, 1, 2]})
        self.assertEqual((histogram["_type"], len(histogram["values"]), sum(histogram["values"])), ("histogram", 32, 100))

    def test_media(self):
        node.require("numpy")
        row = self.row(
            "{'image': ranklog.Image(pixels, caption='c'), 'images': [ranklog.Image(pixels), ranklog.Image(pixels[:, :, 0])], 'table': "
            "ranklog.Table(columns=['a', 'b'], data=[[1, 'x'], [2, None]]), 'html': ranklog.Html('<b>x</b>'), 'histogram': "
            "ranklog.Histogram([0, 0, 1], num_bins=2), 'loss': 1}",
            "import numpy\npixels = numpy.zeros((4, 6, 3), numpy.uint8)",
        )
        self.assertEqual((row["image"]["width"], row["image"]["height"], row["image"]["caption"]), (6, 4, "c"))
        self.assertEqual((row["images"]["_type"], row["images"]["count"]), ("images/separated", 2))
        self.assertEqual((row["table"]["ncols"], row["table"]["nrows"]), (2, 2))
        self.assertEqual(row["html"]["_type"], "html-file")
        self.assertEqual(row["histogram"], {"_type": "histogram", "values": [2, 1], "bins": [0, 0.5, 1]})
        self.assertEqual(row["loss"], 1)

    def test_histogram_without_numpy(self):
        """The wheel needs no other package."""
        node.require("numpy")
        printed = self.python("""
            import sys
            import ranklog
            lists = ([0, 0, 1], [1.5, -2, float('nan'), 8, float('inf')], [3], [], range(100))
            with_numpy = [ranklog.Histogram(values, num_bins=8) for values in lists]
            sys.modules["numpy"] = None  # an import fails now
            for values, other in zip(lists, with_numpy):
                histogram = ranklog.Histogram(values, num_bins=8)
                print(histogram.histogram == other.histogram, max(abs(a - b) for a, b in zip(histogram.bins, other.bins)) < 1e-9)
        """)
        self.assertEqual(printed, "True True\n" * 5)

    def test_image_is_png(self):
        node.require("numpy")
        node.require("torch")
        printed = self.python("""
            import struct, zlib
            import numpy, ranklog, torch
            pixels = numpy.arange(24, dtype=numpy.uint8).reshape(2, 4, 3)
            for image in (ranklog.Image(pixels), ranklog.Image(torch.from_numpy(pixels).permute(2, 0, 1)), ranklog.Image(pixels / 255.0)):
                data = image.png[33:]  # after the signature and the header
                size, kind = struct.unpack('>I4s', data[:8])
                lines = zlib.decompress(data[8:8 + size])
                print(kind, lines == b''.join(b'\\0' + row.tobytes() for row in pixels))
        """)
        self.assertEqual(printed, "b'IDAT' True\n" * 3)

    def test_keys_made_anew_share_the_row_with_literals(self):
        self.python("""
            import ranklog
            run = ranklog.init()
            for i in range(3):
                run.log({f"metric/{k}": i * k for k in range(3)})
            run.log({"metric/0": 10, "metric/1": 11, "metric/2": 12})
            run.log({"metric/2": 22, "metric/1": 21, "metric/0": 20})
            run.finish()
        """)
        values = [[row[f"metric/{k}"] for k in range(3)] for row in self.rows()]
        self.assertEqual(values, [[0, 0, 0], [0, 1, 2], [0, 2, 4], [10, 11, 12], [20, 21, 22]])

    def test_many_shapes_and_wide_rows(self):
        self.python("""
            import ranklog
            run = ranklog.init()
            for turn in range(2):
                for shape in range(40):
                    run.log({f"m{shape}-{k}": k for k in range(shape)}, step=40 * turn + shape)
            run.log({f"wide{k}": k for k in range(500)}, step=100)
            run.finish()
        """)
        rows = self.rows()
        self.assertEqual(len(rows[-1]), 501)
        for row in rows[:-1]:
            shape = row.pop("_step") % 40
            self.assertEqual(row, {f"m{shape}-{k}": k for k in range(shape)})

    def test_a_value_that_changes_the_dict(self):
        node.require("numpy")
        row = self.row(
            "data",
            """
class Scalar:
    shape = ()
    tolist = None
    def item(self):
        data.clear()
        return 5.0
data = {'a': 1, 'scalar': Scalar(), 'b': 2}
""",
        )
        self.assertEqual(row, {"a": 1, "scalar": 5, "b": 2})

    def test_keys_of_a_subclass_of_str(self):
        # Their __hash__ may change the dict, or raise, while log() reads it.
        self.python("""
            import ranklog
            class Key(str):
                acts = None
                __eq__ = str.__eq__
                def __hash__(self):
                    if Key.acts is not None:
                        Key.acts()
                    return str.__hash__(self)
            def clear():
                Key.acts = None
                row.clear()
                junk.extend(bytearray(64) for _ in range(1000))
            def fail():
                raise ValueError("hash")
            run = ranklog.init()
            junk = []
            for i in range(50):
                run.log({"a" * 50 + str(i): 1, "b" * 50 + str(i): 2})
                row = {Key("a" * 50 + str(i)): 3, Key("b" * 50 + str(i)): 4}
                Key.acts = clear
                run.log(row)
                assert len(row) == 2, "log() called __hash__"
                Key.acts = None
            row = {Key("a"): 5}
            run.log({"a": 1})
            Key.acts = fail
            run.log(row)
            assert run.summary["a"] == 5
            run.finish()
        """)
        rows = self.rows()
        self.assertEqual((len(rows), rows[99], rows[101]), (102, {"_step": 99, "a" * 50 + "49": 3, "b" * 50 + "49": 4}, {"_step": 101, "a": 5}))

    def test_ctrl_c_inside_a_value_is_raised(self):
        self.python("""
            import signal
            import ranklog
            class Value:
                shape = ()
                tolist = None
                asked = 0
                def item(self):
                    Value.asked += 1
                    if Value.asked == 1:
                        signal.raise_signal(signal.SIGINT)
                    return 1.0
            run = ranklog.init()
            try:
                run.log({'a': Value()})
            except KeyboardInterrupt:
                run.log({'a': 2})
            else:
                raise SystemExit('Ctrl-C was lost')
        """)
        self.assertEqual(self.rows(), [{"_step": 0, "a": 2}])

    def test_mock_objects_and_long_doubles(self):
        node.require("numpy")
        row = self.row("{'mock': MagicMock(), 'long': numpy.longdouble(1.5), 'list': [1, numpy.longdouble(2.5)]}",
                       "import numpy\nfrom unittest.mock import MagicMock")  # fmt: skip
        self.assertIn("Mock", row.pop("mock"))
        self.assertEqual(row, {"long": 1.5, "list": [1, 2.5]})

    def test_wrong_arguments_raise_as_at_wandb(self):
        self.python("""
            import ranklog
            run = ranklog.init()
            for call in (lambda: run.log(5), lambda: run.log({1: 2}), lambda: run.log({'a': 1}, steps=3), lambda: run.log(), lambda: run.log({}, 1, True, 4),
                         lambda: run.log({'a': 1}, step='7'), lambda: run.log({'a': 1}, step=1.5), lambda: run.log({'a': [1]}, step='7')):
                try:
                    call()
                except TypeError:
                    pass
                else:
                    raise SystemExit('no TypeError')
            run.log({'a': 1}, step=2.0)
            run.log(data={'a': 2}, step=3)
            run.finish()
        """)
        self.assertEqual(self.rows(), [{"_step": 2, "a": 1}, {"_step": 3, "a": 2}])


if __name__ == "__main__":
    unittest.main()

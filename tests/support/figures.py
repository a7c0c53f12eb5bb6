"""The table of figures and goals that the benchmarks and the soak print."""

import dataclasses
import json
import math


# A known miss fails if it is worse than its record by this factor. Two, because the records are of several machines.
WORSE = 2


@dataclasses.dataclass
class Figure:
    name: str  # of the trial or benchmark, and of the figure
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    runs: list[float] = dataclasses.field(default_factory=list)  # the value of each run, where there were several
    on_record: float | None = None  # known to miss its goal, by this value
    note: str = ""

    @property
    def goal(self):
        if self.at_most is not None:
            return f"<= {number(self.at_most)}"
        return "" if self.at_least is None else f">= {number(self.at_least)}"

    @property
    def met(self):
        """Whether the figure meets its goal. Without a goal, any number does."""
        return (math.isfinite(self.value) and (self.at_most is None or self.value <= self.at_most) and
                (self.at_least is None or self.value >= self.at_least))

    @property
    def near_record(self):
        """Whether a known miss is about as large as on record."""
        if self.on_record is None or not math.isfinite(self.value):
            return False
        return self.value <= WORSE * self.on_record if self.at_most is not None else WORSE * self.value >= self.on_record

    @property
    def failed(self):
        return not self.met and not self.near_record

    @property
    def result(self):
        if self.on_record is not None and not self.failed:
            return "met, though listed as a known miss" if self.met else f"known miss ({self.on_record:g} on record)"
        if not self.met:
            return "MISSED" if self.on_record is None else f"MISSED, far from the {self.on_record:g} on record"
        return "met" if self.goal else "-"


def number(value):
    """Formats a number for people: 68,112, 64.23, 0.125."""
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def text(figures):
    """Returns a header, and one line per figure."""
    header = ("figure", "value", "goal", "result", "")
    rows = [header]
    for figure in figures:
        notes = [figure.note] if figure.note else []
        if len(figure.runs) > 1:
            notes.insert(0, "runs: " + ", ".join(f"{value:.3g}" for value in figure.runs))
        rows.append((figure.name, f"{number(figure.value)} {figure.unit}".rstrip(), figure.goal, figure.result, "; ".join(notes)))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[4]]).rstrip() for row in rows)


def as_json(figures):
    """Returns the same for scripts: an array of objects."""
    def finite(value):  # JSON has no NaN
        return value if math.isfinite(value) else None
    return json.dumps([{"name": f.name, "value": finite(f.value), "unit": f.unit, "at_most": f.at_most, "at_least": f.at_least,
                        "runs": [finite(value) for value in f.runs], "on_record": f.on_record, "result": f.result, "failed": f.failed}
                       for f in figures], indent=1)

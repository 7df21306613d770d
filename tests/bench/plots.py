"""Plots of what was measured, as SVG."""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tests.bench.measured import Measurements

BAR_WIDTH: Final = 0.8

# What the figures of each panel begin with.
_TO_ARROW: Final = ("arrow_against_", "threads_against_")
_THROUGH_SPARK: Final = ("spark_rows_", "kafka_source_")
_QUERIED: Final = "queried_"
_PLANNED: Final = "planned_"

_LABELS: Final = {
    "1": "1 a\nbatch",
    "100": "100 a\nbatch",
    "1000": "1,000 a\nbatch",
    "1kb": "values\nof 1 kB",
    "v1": "format 1",
    "v1_lz4": "format 1,\nlz4",
}

# By case (a shape of a log, or a number of segments) and side, the median of what was measured.
Cases = dict[str, dict[str, float]]


def rates_svg(measured: Measurements) -> str:
    """Draw rows a second of each shape of log: log to Arrow and its peers, and through Spark."""
    canvas = Canvas(figsize=(11, 7), layout="constrained")
    upper, lower = canvas.subplots(2)
    _bars(upper, _cases(measured, _TO_ARROW), "log to Arrow, one process")
    _bars(lower, _cases(measured, _THROUGH_SPARK), "through Spark, two cores")
    return _svg(canvas)


def queries_svg(measured: Measurements) -> str:
    """Draw the time of queries against the size of the log."""
    return _curves(measured, _QUERIED, "segments of a gigabyte")


def planning_svg(measured: Measurements) -> str:
    """Draw the time of planning against the number of segments."""
    return _curves(measured, _PLANNED, "segments, of three files each")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A file of a plot.

    Attributes
    ----------
    group
        The benchmarks that it belongs to.
    figures
        How the names of the figures begin that it is not drawn without.
    """

    name: str
    what: str
    group: str
    figures: str
    draw: Callable[[Measurements], str]

    def is_measured(self, measured: Measurements) -> bool:
        return any(figure.name.startswith(self.figures) for figure in measured.figures)


PLOTS: Final = (
    Plot(
        name="speed-rates.svg",
        what="Rows a second by shape of the log, with the peers",
        group="decode",
        figures="arrow_against_",
        draw=rates_svg,
    ),
    Plot(
        name="speed-queries.svg",
        what="Time of queries by size of the log",
        group="query-sizes",
        figures=_QUERIED,
        draw=queries_svg,
    ),
    Plot(
        name="speed-planning.svg",
        what="Time of planning by number of segments",
        group="planning-sizes",
        figures=_PLANNED,
        draw=planning_svg,
    ),
)


def _cases(measured: Measurements, prefixes: tuple[str, ...]) -> Cases:
    cases: Cases = {}
    for figure in measured.figures:
        if figure.name.startswith(prefixes):
            for name, values in figure.sides.items():
                case, _, side = name.partition(": ")
                cases.setdefault(case, {})[side] = statistics.median(values)
    return cases


def _sides(cases: Cases) -> Iterable[str]:
    return dict.fromkeys(side for sides in cases.values() for side in sides)


def _bars(axes: Axes, cases: Cases, title: str) -> None:
    sides = list(_sides(cases))
    width = BAR_WIDTH / max(len(sides), 1)
    for number, side in enumerate(sides):
        shown = [
            (index, found[side]) for index, found in enumerate(cases.values()) if side in found
        ]
        axes.bar(
            [index + number * width for index, _ in shown],
            [rate / 1e6 for _, rate in shown],
            width,
            label=side,
        )
    middles = [index + (BAR_WIDTH - width) / 2 for index in range(len(cases))]
    axes.set_xticks(middles, [_LABELS.get(case, case) for case in cases])
    axes.set_yscale("log")
    axes.set_ylabel("million rows a second")
    axes.set_title(title)
    if sides:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _curves(measured: Measurements, prefix: str, what: str) -> str:
    cases = _cases(measured, (prefix,))
    canvas = Canvas(figsize=(9, 4.5), layout="constrained")
    axes = canvas.subplots()
    for side in _sides(cases):
        shown = [(int(case), found[side]) for case, found in cases.items() if side in found]
        axes.plot(
            [count for count, _ in shown], [taken for _, taken in shown], marker="o", label=side
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(what)
    axes.set_ylabel("seconds")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return _svg(canvas)


def _svg(canvas: Canvas) -> str:
    """Write the same bytes for the same plot, with letters as text."""
    written = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "segmentlog", "svg.fonttype": "none"}):
        canvas.savefig(written, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"

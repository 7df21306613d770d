"""Plots of what was measured, as SVG."""

from __future__ import annotations

import io
import statistics
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from tests.bench.measured import Measurements

BAR_WIDTH: Final = 0.8


def rates_svg(measured: Measurements) -> str:
    """Draw the records a second of each case of log to Arrow, a bar for each side."""
    cases: dict[str, dict[str, float]] = {}
    for figure in measured.figures:
        for side, rates in figure.sides.items():
            case, _, name = side.partition(": ")
            cases.setdefault(case, {})[name] = statistics.median(rates) / 1e6
    names = list(dict.fromkeys(name for sides in cases.values() for name in sides))
    canvas = Canvas(figsize=(8, 4), layout="constrained")
    axes = canvas.subplots()
    width = BAR_WIDTH / max(len(names), 1)
    for number, name in enumerate(names):
        places = [place + number * width for place, case in enumerate(cases) if name in cases[case]]
        axes.bar(places, [it[name] for it in cases.values() if name in it], width, label=name)
    axes.set_xticks([place + BAR_WIDTH / 2 - width / 2 for place in range(len(cases))], list(cases))
    axes.set_yscale("log")
    axes.set_ylabel("million records a second")
    axes.legend()
    return _svg(canvas)


def _svg(canvas: Canvas) -> str:
    """Write the same bytes for the same plot."""
    written = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "segmentlog"}):
        canvas.savefig(written, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"

"""Ratios against bounds: how they are measured, judged and written down.

The machine is shared and noisy, so nothing is compared across runs: the sides of a ratio take turns
within one run, and the best of each side counts, since noise only ever adds time.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

Measurement = Callable[[], float]
"""Does one round of one side and returns its seconds (or bytes, or a count)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound that a measured figure must keep.

    Attributes
    ----------
    name
        Key of the figure that a benchmark reports.
    bound, at_most
        The figure is at most `bound`, or at least `bound` where `at_most` is false.
    unit
        "x" for a ratio, else the unit of an absolute figure.
    aim
        What is aimed at, where the bound is not there yet.
    """

    name: str
    what: str
    bound: float
    at_most: bool = True
    unit: str = "x"
    aim: float | None = None

    def is_met(self, figure: float) -> bool:
        return figure <= self.bound if self.at_most else figure >= self.bound

    def reaches_aim(self, figure: float) -> bool:
        """Tell whether the figure is where the bound should be."""
        return self.aim is None or replace(self, bound=self.aim).is_met(figure)

    @property
    def bound_text(self) -> str:
        return f"{'at most' if self.at_most else 'at least'} {self.bound:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured for one target, with the sides it was made from.

    `sides` are for plots, by what is written ``case: side``: records a second, or where the group
    is one of curves, seconds.
    """

    name: str
    value: float
    detail: str
    sides: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How large and how often a run measures.

    Attributes
    ----------
    scale
        Multiplies every size; 1 is what the targets are stated for. The checks of `make test`,
        which only keep the benchmarks alive, use a very small one.
    repetitions
        Rounds in which the sides of a ratio take turns.
    cache
        Folder where generated logs are kept for the next run.
    """

    scale: float
    repetitions: int
    cache: Path

    def sized(self, count: int, *, multiple_of: int = 1) -> int:
        """Scale a count, down to no less than one multiple."""
        return max(1, int(count * self.scale) // multiple_of) * multiple_of


@dataclass(frozen=True, slots=True)
class Timings:
    """The rounds of one side."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def take_turns(sides: Sequence[Measurement], repetitions: int) -> list[Timings]:
    """Measure the sides in turns, after one round of each that does not count."""
    for side in sides:
        side()
    rounds: list[list[float]] = [[] for _ in sides]
    for repetition in range(repetitions):
        # The order flips, so that no side always runs in the other's wake.
        order = range(len(sides)) if repetition % 2 == 0 else reversed(range(len(sides)))
        for index in order:
            rounds[index].append(sides[index]())
    return [Timings(tuple(each)) for each in rounds]


def seconds(action: Callable[[], object]) -> Measurement:
    """Make a measurement of an action's wall-clock time."""

    def measure() -> float:
        gc.collect()
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return measure


def ns_a_record(timings: Timings, records_count: int) -> str:
    return f"{timings.best / records_count * 1e9:.0f} ns a record"


@dataclass(frozen=True, slots=True)
class Report:
    """Figures of one run beside the bounds they must keep."""

    targets: Sequence[Target]
    figures: Sequence[Figure]
    not_run: Sequence[str]

    @property
    def rows(self) -> list[tuple[Target, Figure]]:
        """Figures beside their bounds; a curve has none."""
        by_name = {target.name: target for target in self.targets}
        return [(by_name[figure.name], figure) for figure in self.figures if figure.name in by_name]

    @property
    def missed(self) -> list[str]:
        return [target.name for target, figure in self.rows if not target.is_met(figure.value)]

    def markdown(self) -> str:
        lines = ["| what | measured | bound | met | sides |", "|---|---|---|---|---|"]
        for target, figure in self.rows:
            met = "yes" if target.is_met(figure.value) else "**no**"
            value = f"{figure.value:.3g} {target.unit}"
            lines.append(
                f"| {target.what} | {value} | {target.bound_text} | {met} | {figure.detail} |"
            )
        return "\n".join([*lines, *(f"\nNot run: {reason}" for reason in self.not_run)]) + "\n"

    def write(self, directory: Path) -> None:
        """Write ``bench.md`` and ``bench.json`` into a folder."""
        directory.mkdir(parents=True, exist_ok=True)
        rows = [
            {
                "name": target.name,
                "what": target.what,
                "value": figure.value,
                "bound": target.bound,
                "at_most": target.at_most,
                "unit": target.unit,
                "met": target.is_met(figure.value),
                "detail": figure.detail,
            }
            for target, figure in self.rows
        ]
        machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "load": os.getloadavg()}
        document = {"machine": machine, "figures": rows, "not_run": list(self.not_run)}
        (directory / "bench.json").write_text(json.dumps(document, indent=2) + "\n")
        (directory / "bench.md").write_text(self.markdown())


def unmeasured(targets: Iterable[Target], figures: Iterable[Figure]) -> list[str]:
    """Name the targets that no figure was reported for."""
    measured = {figure.name for figure in figures}
    return [target.name for target in targets if target.name not in measured]

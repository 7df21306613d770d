"""Several runs of the benchmarks: as JSON, and as tables of medians and ranges."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.bench.harness import Figure, Target
from tests.support.kafka_jars import KAFKA_VERSION

# How the name of a figure ends that tells the most that another one can be on the machine.
CEILING: Final = "ceiling"
PACKAGES: Final = (
    "spark-segmentlog",
    "pyspark",
    "pyarrow",
    "numpy",
    "numba",
    "cramjam",
    "lz4",
    "zstandard",
    "crc32c",
    "aiokafka",
    "kafka-python",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFigure:
    """One figure of every run, and its sides as `Figure` has them."""

    name: str
    values: tuple[float, ...]
    sides: dict[str, tuple[float, ...]]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What some runs measured, and on what."""

    machine: dict[str, Any]
    versions: dict[str, str]
    figures: tuple[MeasuredFigure, ...]


def measurements(runs: Sequence[Iterable[Figure]]) -> Measurements:
    """Gather the figures of runs on this machine; a curve is in the first alone."""
    figures = tuple(
        MeasuredFigure(
            name=name,
            values=tuple(figure.value for figure in found),
            sides={side: tuple(each.sides[side] for each in found) for side in found[0].sides},
        )
        for name, found in _by_name(figure for run in runs for figure in run).items()
    )
    return Measurements(machine=_machine(), versions=_versions(), figures=figures)


def medians(runs: Sequence[Iterable[Figure]]) -> list[Figure]:
    """Give each figure once, with the median of its values and the sides of its last run."""
    return [
        replace(found[-1], value=statistics.median(figure.value for figure in found))
        for found in _by_name(figure for run in runs for figure in run).values()
    ]


def joined(parts: Sequence[Measurements]) -> Measurements:
    """Put together what was measured in several goes, on one machine with one set of versions.

    Raises
    ------
    ValueError
        The machine or a version is another one.
    """
    first = parts[0]
    for part in parts[1:]:
        if (part.machine, part.versions) != (first.machine, first.versions):
            raise ValueError(
                f"measured on {part.machine} with {part.versions}, "
                f"not on {first.machine} with {first.versions}"
            )
    figures = tuple(
        MeasuredFigure(
            name=name,
            values=tuple(value for figure in found for value in figure.values),
            sides={
                side: tuple(value for figure in found for value in figure.sides[side])
                for side in found[0].sides
            },
        )
        for name, found in _by_name(figure for part in parts for figure in part.figures).items()
    )
    return replace(first, figures=figures)


def to_json(measured: Measurements) -> str:
    return json.dumps(asdict(measured), indent=2) + "\n"


def from_json(text: str) -> Measurements:
    found = json.loads(text)
    figures = tuple(
        MeasuredFigure(
            name=figure["name"],
            values=tuple(figure["values"]),
            sides={side: tuple(values) for side, values in figure["sides"].items()},
        )
        for figure in found["figures"]
    )
    return Measurements(machine=found["machine"], versions=found["versions"], figures=figures)


def conditions(measured: Measurements) -> str:
    """Write a paragraph on the machine and the versions, if anything was measured."""
    if not measured.figures:
        return ""
    versions = ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    machine = measured.machine
    return (
        f"Measured on {machine['cpus']} cores of {machine['processor']} with "
        f"{machine['memory_gb']} GB of memory: {versions}.\n"
    )


def table(measured: Measurements, targets: Iterable[Target]) -> str:
    """Write the medians and ranges of some figures, those that were measured, beside bounds."""
    by_name = {figure.name: figure for figure in measured.figures}
    rows = [
        f"| {target.what} | {median_text(by_name[target.name], target)} "
        f"| {range_text(by_name[target.name])} | {_bound_cell(target, by_name)} "
        f"| `{target.name}` |"
        for target in targets
        if target.name in by_name
    ]
    heading = ["| what | median | range | bound | figure |", "|---|---|---|---|---|"]
    return "\n".join([*heading, *rows]) + "\n" if rows else ""


def median_text(figure: MeasuredFigure, target: Target) -> str:
    unit = "" if target.unit == "x" else f" {target.unit}"
    return f"{figure.median:.3g}{unit}"


def range_text(figure: MeasuredFigure) -> str:
    return f"{min(figure.values):.3g} to {max(figure.values):.3g} in {len(figure.values)}"


def _bound_cell(target: Target, by_name: Mapping[str, MeasuredFigure]) -> str:
    figure, ceiling = by_name[target.name], by_name.get(f"{target.name}_{CEILING}")
    text = target.bound_text
    if not target.is_met(figure.median):
        text += ", **not met**"
    if target.aim is not None and not target.reaches_aim(figure.median):
        text += f"; {target.aim:g} is aimed at, **not reached**"
    if ceiling is not None:
        text += f"; the ceiling here is {ceiling.median:.3g}"
    return text


F = TypeVar("F", Figure, MeasuredFigure)


def _by_name(figures: Iterable[F]) -> dict[str, list[F]]:
    found: dict[str, list[F]] = {}
    for figure in figures:
        found.setdefault(figure.name, []).append(figure)
    return found


def _machine() -> dict[str, Any]:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(memory_bytes / 1e9),
        "system": platform.platform(),
    }


def _processor() -> str:
    """Name the processor as Linux does, or else by its kind."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in PACKAGES}
    return {
        "Python": platform.python_version(),
        "Java": _java_version(),
        "Kafka": KAFKA_VERSION,
        **packages,
    }


def _java_version() -> str:
    run = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return run.stderr.split('"')[1]

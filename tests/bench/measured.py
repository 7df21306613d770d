"""Several runs of the benchmarks: as JSON, and as a table of medians and ranges."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tests.bench.harness import Figure, Target
from tests.support.kafka_jars import KAFKA_VERSION

PACKAGES: Final = (
    "spark-segmentlog",
    "pyspark",
    "pyarrow",
    "numpy",
    "numba",
    "aiokafka",
    "kafka-python",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFigure:
    """One figure of every run, and the records a second of its sides where these were noted."""

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
    """Gather the figures of runs on this machine; each is in all of them."""
    by_name: dict[str, list[Figure]] = {}
    for run in runs:
        for figure in run:
            by_name.setdefault(figure.name, []).append(figure)
    figures = tuple(
        MeasuredFigure(
            name=name,
            values=tuple(figure.value for figure in found),
            sides={side: tuple(it.sides[side] for it in found) for side in found[0].sides},
        )
        for name, found in by_name.items()
    )
    return Measurements(machine=_machine(), versions=_versions(), figures=figures)


def to_json(measured: Measurements) -> str:
    return json.dumps(asdict(measured), indent=2) + "\n"


def from_json(text: str) -> Measurements:
    found = json.loads(text)
    figures = tuple(
        MeasuredFigure(
            name=it["name"],
            values=tuple(it["values"]),
            sides={side: tuple(rates) for side, rates in it["sides"].items()},
        )
        for it in found["figures"]
    )
    return Measurements(machine=found["machine"], versions=found["versions"], figures=figures)


def table(measured: Measurements, targets: Iterable[Target]) -> str:
    """Write a line on the machine, and a table of the medians and ranges."""
    by_name = {target.name: target for target in targets}
    runs = max((len(figure.values) for figure in measured.figures), default=0)
    versions = ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    machine = f"{measured.machine['cpus']} cores ({measured.machine['processor']})"
    lines = [
        f"Medians and ranges of {runs} runs on {machine}, with {versions}.",
        "",
        "| what | median | range | bound | figure |",
        "|---|---|---|---|---|",
    ]
    for figure in measured.figures:
        target = by_name[figure.name]
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        lines.append(
            f"| {target.what} | {figure.median:.3g} {target.unit} | {spread} "
            f"| {target.bound_text} | `{figure.name}` |"
        )
    return "\n".join(lines) + "\n"


def _machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "load": os.getloadavg(),
    }


def _processor() -> str:
    """Name the processor as Linux does, or else by its kind."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in PACKAGES}
    return {"Python": platform.python_version(), "Kafka": KAFKA_VERSION, **packages}

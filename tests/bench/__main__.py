"""Measure every ratio, print it beside its bound, and fail where one is missed.

The table goes to standard output and, with the figures as JSON, to ``.build/bench``.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.bench.cli import cli_figures
from tests.bench.commit import commit_figures
from tests.bench.decode import decode_figures
from tests.bench.far import far_figures
from tests.bench.first_query import first_query_figures
from tests.bench.harness import Figure, Report, Settings, Target, unmeasured
from tests.bench.kafka_source import kafka_source_figures
from tests.bench.log_sizes import planning_sizes_figures, query_sizes_figures
from tests.bench.measured import measurements, medians, to_json
from tests.bench.memory import memory_figures
from tests.bench.planning import planning_figures
from tests.bench.spark_read import (
    limit_figures,
    small_segments_figures,
    spark_read_figures,
)
from tests.bench.spark_stream import spark_stream_figures
from tests.bench.spark_write import spark_write_figures
from tests.bench.targets import TARGETS
from tests.bench.tier import tier_figures
from tests.support.kafka_jars import KafkaJars, KafkaJarsError, cached_kafka_jars, kafka_jars
from tests.support.project import PROJECT

Group = Callable[[Settings, KafkaJars | None], Iterator[Figure]]

GROUPS: dict[str, Group] = {
    "decode": decode_figures,
    "spark-read": lambda settings, _: spark_read_figures(settings),
    "kafka-source": kafka_source_figures,
    "first-query": lambda settings, _: first_query_figures(settings),
    "small-segments": lambda settings, _: small_segments_figures(settings),
    "limit": lambda settings, _: limit_figures(settings),
    "planning": lambda settings, _: planning_figures(settings),
    "commit": lambda settings, _: commit_figures(settings),
    "spark-write": spark_write_figures,
    "spark-stream": lambda settings, _: spark_stream_figures(settings),
    "memory": lambda settings, _: memory_figures(settings),
    "cli": cli_figures,
    "tier": lambda settings, _: tier_figures(settings),
    "far": lambda settings, _: far_figures(settings),
}
# Curves for the plots, without bounds: measured in the first run alone.
CURVES: dict[str, Group] = {
    "query-sizes": lambda settings, _: query_sizes_figures(settings),
    "planning-sizes": lambda settings, _: planning_sizes_figures(settings),
}


def main(arguments: list[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    settings = Settings(
        scale=parsed.scale, repetitions=parsed.repetitions, cache=parsed.output / "logs"
    )
    settings.cache.mkdir(parents=True, exist_ok=True)
    # Wherever a library is installed its modules are compiled; here by the first process.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    not_run: list[str] = []
    jars = cached_kafka_jars() if parsed.offline else _jars(not_run)
    asked = parsed.groups or [*GROUPS, *CURVES]
    repeated = [name for name in asked if name not in CURVES]
    runs: list[list[Figure]] = []
    for number in range(parsed.runs):
        runs.append(_run(repeated if number else asked, settings, jars))
        if parsed.json is not None:
            parsed.json.write_text(to_json(measurements(runs)))
    figures = medians(runs)
    targets = [dataclasses.replace(each, bound=_slackened(each, parsed.slack)) for each in TARGETS]
    if not parsed.groups and not parsed.offline and unmeasured(targets, figures):
        not_run.append(f"no figure for {', '.join(unmeasured(targets, figures))}")
    report = Report(targets, figures, not_run)
    report.write(parsed.output)
    print(report.markdown())
    if report.missed:
        print(f"missed: {', '.join(report.missed)}", file=sys.stderr)
    return 1 if report.missed or not_run else 0


def _run(groups: Iterable[str], settings: Settings, jars: KafkaJars | None) -> list[Figure]:
    figures: list[Figure] = []
    for name in groups:
        for figure in (GROUPS | CURVES)[name](settings, jars):
            print(f"{figure.name}: {figure.value:.3g} ({figure.detail})", file=sys.stderr)
            figures.append(figure)
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"of {', '.join([*GROUPS, *CURVES])}"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="multiply every size")
    parser.add_argument("--repetitions", type=int, default=5, help="rounds of each side")
    parser.add_argument(
        "--runs", type=int, default=1, help="run all that often; medians are judged"
    )
    parser.add_argument("--json", type=Path, help="write the figures of all runs to this file")
    parser.add_argument(
        "--slack", type=float, default=1.0, help="widen every bound by this factor (busy machines)"
    )
    parser.add_argument("--output", type=Path, default=PROJECT / ".build" / "bench")
    parser.add_argument(
        "--offline", action="store_true", help="leave out what needs Kafka's jars if not cached"
    )
    return parser


def _slackened(target: Target, slack: float) -> float:
    return target.bound * slack if target.at_most else target.bound / slack


def _jars(not_run: list[str]) -> KafkaJars | None:
    try:
        return kafka_jars()
    except KafkaJarsError as error:
        not_run.append(str(error))
        return None


if __name__ == "__main__":
    raise SystemExit(main())

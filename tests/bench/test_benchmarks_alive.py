"""The benchmarks run once, tiny and without judging a time, so that they stay alive."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import crc32c
import pytest

import spark_segmentlog
from tests.bench.__main__ import CURVES, GROUPS
from tests.bench.harness import Figure, Report, Settings, Target, take_turns
from tests.bench.log_files import FIRST_TIMESTAMP_MS, VALUE_BYTES, LogShape, generate_partition
from tests.bench.log_sizes import linked_log_directory
from tests.bench.measured import Measurements, from_json
from tests.bench.plots import PLOTS
from tests.bench.targets import TARGETS_OF_GROUPS
from tests.bench.visitors import visit_with_aiokafka, visit_with_kafka_python
from tests.support.benchmarks import run_benchmarks
from tests.support.kafka_jars import cached_kafka_jars

_TARGETS = (
    Target(name="low", what="small is good", bound=2.0),
    Target(name="high", what="large is good", bound=0.5, at_most=False),
)


def _measured_groups(measured: Measurements) -> set[str]:
    """Name the groups that some figure is of; curves are told by their plots."""
    names = {figure.name for figure in measured.figures}
    bounded = {
        group
        for group, targets in TARGETS_OF_GROUPS.items()
        if not names.isdisjoint(target.name for target in targets)
    }
    return bounded | {plot.group for plot in PLOTS if plot.is_measured(measured)}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "groups",
    [
        ("decode", "planning", "commit", "cli", "tier", "far", "planning-sizes"),
        ("spark-read", "small-segments", "limit"),
        ("spark-write", "spark-stream"),
        ("first-query", "query-sizes"),
    ],
)
def test_groups_report_their_figures(tmp_path: Path, groups: tuple[str, ...]) -> None:
    noted = tmp_path / "noted.json"
    run = run_benchmarks(tmp_path, "--scale", "0.001", "--slack", "1e9", f"--json={noted}", *groups)

    assert run.returncode == 0, run.stderr
    without_peer = {"cli"} if cached_kafka_jars() is None else set()
    assert set(groups) - without_peer <= _measured_groups(from_json(noted.read_text()))
    figures = json.loads((tmp_path / "bench.json").read_text())["figures"]
    assert all(figure["value"] >= 0 or figure["unit"] == "s" for figure in figures)
    assert "| what | measured |" in (tmp_path / "bench.md").read_text()


def test_a_missed_bound_fails_therun_benchmarks(tmp_path: Path) -> None:
    run = run_benchmarks(tmp_path, "--scale", "0.001", "--slack", "1e-9", "decode")

    assert run.returncode == 1
    assert "missed: arrow_against_" in run.stderr


def test_a_figure_is_judged_on_its_side_of_the_bound() -> None:
    figures = [Figure(name="low", value=2.1, detail=""), Figure(name="high", value=0.6, detail="")]

    report = Report(_TARGETS, figures, [])

    assert report.missed == ["low"]
    assert "| large is good | 0.6 x | at least 0.5 | yes |" in report.markdown()


def test_sides_take_turns_in_alternating_order_after_a_round_that_does_not_count() -> None:
    calls: list[str] = []

    def side(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    first, second = take_turns([lambda: side("a"), lambda: side("b")], 2)

    assert "".join(calls) == "ab" + "ab" + "ba"
    assert (first.rounds, second.rounds) == ((3.0, 6.0), (4.0, 5.0))


def test_generated_segments_are_rolled_and_checksummed(tmp_path: Path) -> None:
    shape = LogShape(records_count=400, records_per_batch=10, segment_bytes=20_000)

    log_directory = generate_partition(tmp_path, shape)

    paths = sorted((log_directory / "bench-0").glob("*.log"))
    assert len(paths) > 1
    assert generate_partition(tmp_path, shape) == log_directory
    for path in paths:
        data = path.read_bytes()
        assert len(data) <= 20_000
        assert int(path.stem) == int.from_bytes(data[:8], "big")
        length = int.from_bytes(data[8:12], "big")
        assert int.from_bytes(data[17:21], "big") == crc32c.crc32c(data[21 : 12 + length])


def test_messages_of_format_one_are_read_as_they_were_made(tmp_path: Path) -> None:
    for codec, records_per_batch in (("none", 1), ("lz4", 10)):
        shape = LogShape(
            records_count=40, records_per_batch=records_per_batch, codec=codec, magic=1
        )
        log_directory = generate_partition(tmp_path, shape)

        rows = spark_segmentlog.read_arrow(str(log_directory)).read_all()

        assert rows["offset"].to_pylist() == list(range(40))
        assert rows["timestamp"].cast("int64").to_pylist() == [
            (FIRST_TIMESTAMP_MS + offset) * 1000 for offset in range(40)
        ]
        assert {len(value) for value in rows["value"].to_pylist()} == {VALUE_BYTES}
        data = next(log_directory.glob("*/*.log")).read_bytes()
        visit_with_aiokafka(data, 40)
        if codec == "none":
            visit_with_kafka_python(data, 40)


def test_a_linked_log_has_all_its_records(tmp_path: Path) -> None:
    settings = Settings(scale=0.0001, repetitions=1, cache=tmp_path)
    for segments_count, partitions_count in ((1, 1), (10, 2)):
        log_directory, rows_count = linked_log_directory(settings, segments_count)

        assert len(list(log_directory.glob("*/*.log"))) == segments_count
        rows = spark_segmentlog.read_arrow(str(log_directory)).read_all()
        assert rows.num_rows == rows_count
        assert len(rows["partition"].unique()) == partitions_count


def test_every_group_has_bounds_or_is_a_curve() -> None:
    assert GROUPS.keys() == TARGETS_OF_GROUPS.keys()
    assert not GROUPS.keys() & CURVES.keys()


def test_shapes_that_differ_are_cached_apart() -> None:
    shape = LogShape(records_count=400, records_per_batch=10)

    assert shape.name != dataclasses.replace(shape, codec="lz4").name

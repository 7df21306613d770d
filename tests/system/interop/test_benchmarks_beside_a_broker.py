"""The benchmark against Spark's Kafka source runs once, tiny and without judging a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.targets import KAFKA_SOURCE_TARGETS
from tests.support.benchmarks import run_benchmarks
from tests.support.kafka_jars import KafkaJars

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def test_every_query_finds_its_rows_on_both_sides(tmp_path: Path, jars: KafkaJars) -> None:
    assert jars.connector

    run = run_benchmarks(tmp_path, "--scale", "0.001", "--slack", "1e9", "kafka-source")

    assert run.returncode == 0, run.stderr
    figures = json.loads((tmp_path / "bench.json").read_text())["figures"]
    assert [figure["name"] for figure in figures] == [
        target.name for target in KAFKA_SOURCE_TARGETS
    ]

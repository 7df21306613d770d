"""The same stream by Spark's Kafka source from the broker and by ours from its folders.

``KAFKA_PARITY_STREAMS`` says how many drawn option sets are compared.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException, UnsupportedOperationException
from pyspark.sql import SparkSession

from spark_segmentlog import lag
from tests.support.beside_kafka import Refusal, refusal_of
from tests.support.broker import Broker
from tests.support.kafka_differences import DIFFERENCES
from tests.support.option_sets import (
    STREAM_FACTORS,
    Choices,
    Facts,
    option_sets,
    options_of,
    pairs_of,
    pairs_of_factors,
)
from tests.support.stream_job import Job

pytestmark = pytest.mark.interop

SEED = 7
SETS_COUNT = int(os.environ.get("KAFKA_PARITY_STREAMS", "40"))


def _run(job: Job, source: str, options: dict[str, str]) -> Refusal | None:
    try:
        job.run(source, **options)
    except Exception as error:  # noqa: BLE001 - the Kafka source raises what it has at hand
        return refusal_of(job.spark, error)
    return None


@pytest.fixture
def jobs(spark: SparkSession, broker_at_rest: Broker, tmp_path: Path) -> tuple[Job, Job]:
    """A job for the Kafka source and one for ours."""
    return (
        Job(spark, broker_at_rest, tmp_path / "theirs"),
        Job(spark, broker_at_rest, tmp_path / "ours"),
    )


def test_forty_sets_hold_every_pair_of_choices() -> None:
    left = pairs_of_factors(STREAM_FACTORS)
    for choices in option_sets(SEED, 40, STREAM_FACTORS):
        left -= pairs_of(choices)
    assert left == set()


@pytest.mark.parametrize(
    "choices", option_sets(SEED, SETS_COUNT, STREAM_FACTORS), ids=range(SETS_COUNT)
)
def test_micro_batches_offsets_and_refusals_are_those_of_the_kafka_source(
    jobs: tuple[Job, Job], facts: dict[str, Facts], choices: Choices
) -> None:
    is_committed = choices["kafka.isolation.level"] == "read_committed"
    level = "read_committed" if is_committed else "read_uncommitted"
    options = options_of(choices, facts[level])
    theirs, ours = jobs

    expected = _run(theirs, "kafka", options)
    found = _run(ours, "segmentlog", options)

    if expected is not None:
        assert found is not None, (options, expected.text)
        assert found.condition == expected.condition, options
    else:
        assert found is None, (options, found)
        # The first one of ours fixes the start, and is the only one where nothing follows.
        assert (ours.offsets()[1:] or ours.offsets()) == theirs.offsets(), options
        assert ours.rows() == theirs.rows(), options


_LZ4 = {"subscribe": "codec.lz4", "startingOffsets": "earliest"}
_ENDING = {**_LZ4, "endingOffsets": json.dumps({"codec.lz4": {"0": 10, "1": 5}})}


def test_a_stream_ends_where_the_options_say(jobs: tuple[Job, Job]) -> None:
    theirs, ours = jobs
    assert _run(theirs, "kafka", _ENDING) is not None, DIFFERENCES["ending stream"]
    assert _run(ours, "segmentlog", _ENDING) is None
    assert len(ours.read) == 15


def test_the_first_micro_batch_is_empty_and_the_last_one_has_no_metrics(
    jobs: tuple[Job, Job],
) -> None:
    theirs, ours = jobs
    expected, found = theirs.run("kafka", **_LZ4), ours.run("segmentlog", **_LZ4)
    first, *rest = ours.offsets()
    assert first == {"codec.lz4": {"0": 0, "1": 0}}, DIFFERENCES["first micro-batch"]
    assert rest == theirs.offsets()
    assert expected.sources[0].metrics["maxOffsetsBehindLatest"] == "0", DIFFERENCES["metrics"]
    assert found.sources[0].metrics == {}
    assert lag(found).max_offsets_behind_latest == 0


def test_a_source_in_python_has_micro_batches_alone(jobs: tuple[Job, Job], tmp_path: Path) -> None:
    def run(job: Job, source: str) -> None:
        writer = job.load(source, **_LZ4).writeStream.format("noop").trigger(continuous="1 second")
        writer.option("checkpointLocation", str(tmp_path / f"{source}-continuous")).start().stop()

    theirs, ours = jobs
    run(theirs, "kafka")
    with pytest.raises(UnsupportedOperationException) as refused:
        run(ours, "segmentlog")
    assert "continuous" in str(refused.value), DIFFERENCES["continuous trigger"]


def test_a_sink_in_python_takes_no_updates(
    jobs: tuple[Job, Job], broker_at_rest: Broker, tmp_path: Path
) -> None:
    broker_at_rest.create_topic("updates")
    place = {
        "kafka": {"kafka.bootstrap.servers": broker_at_rest.bootstrap_servers},
        "segmentlog": {"path": str(tmp_path / "log")},
    }

    def run(job: Job, source: str) -> None:
        counts = job.load(source, **_LZ4).groupBy("partition").count()
        writer = counts.selectExpr("string(count) as value").writeStream.outputMode("update")
        writer = writer.format(source).options(topic="updates", **place[source])
        writer = writer.option("checkpointLocation", str(job.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    theirs, ours = jobs
    run(theirs, "kafka")
    with pytest.raises(StreamingQueryException) as refused:
        run(ours, "segmentlog")
    assert "does not support Update mode" in str(refused.value), DIFFERENCES["update mode"]

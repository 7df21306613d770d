"""Options of reads: their values and defaults, and what is asked of them."""

from __future__ import annotations

import pickle

import pytest

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.query.offsets import EarliestOffsets, LatestOffsets, MissingTimestampStrategy
from spark_segmentlog.query.read_options import Mode, Pushdown, View
from tests.support.given_options import batch, stream


def test_defaults_are_those_of_the_kafka_source() -> None:
    options = batch()
    assert options.paths == ("/logs",)
    assert options.starting == EarliestOffsets()
    assert options.ending == LatestOffsets()
    assert options.missing_timestamp is MissingTimestampStrategy.ERROR
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.is_read_committed
    assert options.check_crcs
    assert options.mode is Mode.FAILFAST
    assert options.view is View.RECORDS
    assert options.pushdown is Pushdown.AUTO
    assert stream().starting == LatestOffsets()
    assert stream().max_trigger_delay_ms == 15 * 60 * 1000


def test_parsed_options_travel() -> None:
    options = batch(subscribePattern="a.*", startingOffsets='{"a":{"0":-2}}')
    assert pickle.loads(pickle.dumps(options)) == options
    assert len(pickle.dumps(options)) < 2000


def test_size_and_duration_take_units() -> None:
    assert batch().max_decompressed_bytes is None
    assert stream(maxDecompressedBytes="256m").max_decompressed_bytes == 256 << 20
    assert batch(maxPartitionBytes="64m").max_partition_bytes == 64 << 20
    assert batch(maxPartitionBytes="1GiB").max_partition_bytes == 1 << 30
    assert batch(maxPartitionBytes="5000").max_partition_bytes == 5000
    assert stream(maxTriggerDelay="2s").max_trigger_delay_ms == 2000
    assert stream(maxTriggerDelay="250").max_trigger_delay_ms == 250


def test_subscribe_and_assign_values() -> None:
    assert batch(subscribe=" a, b ,,a").selection.subscribe == ("a", "b")
    assigned = batch(assign='{"t":[1,0],"a":[3]}').selection.assign
    assert assigned == (TopicPartition("a", 3), TopicPartition("t", 0), TopicPartition("t", 1))


@pytest.mark.parametrize(
    "option", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"]
)
def test_a_stream_is_limited_where_an_option_says_so(option: str) -> None:
    assert not stream().has_admission_limits
    assert stream(**{option: "5"}).has_admission_limits


def test_transactions_are_hidden_where_the_isolation_level_says_so() -> None:
    assert not batch().is_read_committed
    assert batch(**{"kafka.isolation.level": "read_committed"}).is_read_committed


def test_views_of_topics_are_of_records() -> None:
    of_records = {view for view in View if view.is_of_records}
    assert of_records == {View.RECORDS, *(view for view in View if view.system_topic)}

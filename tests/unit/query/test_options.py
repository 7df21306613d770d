from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from spark_segmentlog.errors import OptionValueError, UnknownOptionError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.query import options as options_module
from spark_segmentlog.query.offsets import (
    GlobalTimestamp,
    LatestOffsets,
    SpecificOffsets,
    SpecificTimestamps,
)
from spark_segmentlog.query.option import Option, OptionScope
from spark_segmentlog.query.option_parsers import integer
from spark_segmentlog.query.options import (
    OPTIONS,
    keywords_to_options,
    parse_read_options,
    parse_write_options,
    warn_ignored,
)
from spark_segmentlog.query.read_options import ReadOptions
from tests.support.doc_tables import read_options_table, write_options_table
from tests.support.given_options import batch, stream

T0 = TopicPartition("t", 0)


def test_keys_have_no_case() -> None:
    options = batch(STARTINGOFFSETS='{"t":{"0":7}}', includeheaders="TRUE")
    assert options.starting == SpecificOffsets({T0: 7})
    assert options.include_headers


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("subscribepatern", "subscribePattern"),
        ("headers", "includeHeaders"),
        ("pushDownn", "pushdown"),
        ("maxPartitionByte", "maxPartitionBytes"),
    ],
)
def test_unknown_option_names_the_nearest(given: str, nearest: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"no option '{given.lower()}'.*'{nearest}'"):
        batch(**{given: "1"})


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("pushdown", "maybe", "auto, true, false"),
        ("mode", "STRICT", "FAILFAST, DROPMALFORMED, PERMISSIVE"),
        ("view", "rows", "records, batches, segments, transactions"),
        ("includeHeaders", "yes", "true and false"),
        ("failOnDataLoss", "0", "true and false"),
        ("minPartitions", "0", "from 1 to 2147483647"),
        ("minPartitions", "1.5", "from 1"),
        ("maxRecordsPerPartition", "-1", "from 1"),
        ("maxPartitionBytes", "12q", "bytes, or a number with k, m, g or t"),
        ("kafka.isolation.level", "serializable", "read_uncommitted, read_committed"),
        ("kafka.check.crcs", "maybe", "true and false"),
        ("startingOffsetsByTimestampStrategy", "none", "error, latest"),
        ("startingTimestamp", "2026-01-01", "a single long value"),
        ("endingTimestamp", "-3", "-1 (latest) and ms since the epoch"),
        ("startingOffsetsByTimestamp", '{"t":{"0":-3}}', "-1 (latest) and ms since the epoch"),
        ("startingOffsets", "newest", "earliest, latest and JSON"),
        ("startingOffsets", '{"t":[0]}', "expected e.g."),
        ("startingOffsets", '{"t":{"0":-3}}', "legal are -2"),
        ("startingOffsets", '{"t":{"0":true}}', "expected e.g."),
        ("startingOffsets", '{"t":{"x":1}}', "expected e.g."),
        ("endingOffsets", "{", "JSON"),
        ("startingOffsetsByTimestamp", '{"t":1}', "expected e.g."),
        ("assign", "{}", "expected e.g."),
        ("assign", '{"t":["0"]}', "expected e.g."),
        ("subscribe", " , ", "no topics to subscribe"),
        ("subscribePattern", "", "empty"),
        ("subscribePattern", "[a", "no Java regular expression"),
        ("paths", "/logs", "JSON list"),
    ],
)
def test_bad_value_names_option_value_and_legal_ones(name: str, value: str, legal: str) -> None:
    with pytest.raises(OptionValueError) as caught:
        batch(**{name.lower(): value})
    text = str(caught.value)
    assert f"'{name}'" in text
    assert value.strip() in text
    assert legal in text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("subscribe", "assign"),
        ("subscribe", "subscribePattern"),
        ("assign", "subscribePattern"),
    ],
)
def test_at_most_one_way_to_choose_topics(first: str, second: str) -> None:
    values = {"subscribe": "t", "assign": '{"t":[0]}', "subscribePattern": "t"}
    with pytest.raises(OptionValueError, match="only one of subscribe"):
        batch(**{first: values[first], second: values[second]})


def test_timestamp_goes_before_timestamps_go_before_offsets() -> None:
    by_partition = '{"t":{"0":5}}'
    everything = {
        "startingOffsets": by_partition,
        "startingOffsetsByTimestamp": by_partition,
        "startingTimestamp": "9",
        "endingOffsets": by_partition,
        "endingOffsetsByTimestamp": by_partition,
        "endingTimestamp": "0",
    }
    assert batch(**everything).starting == GlobalTimestamp(9)
    assert batch(**everything).ending == GlobalTimestamp(0)
    del everything["startingTimestamp"], everything["endingTimestamp"]
    assert batch(**everything).starting == SpecificTimestamps({T0: 5})
    assert batch(**everything).ending == SpecificTimestamps({T0: 5})


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("startingOffsets", "latest", "starting offset can't be latest for batch"),
        ("startingOffsets", '{"t":{"0":-1}}', "t-0 can't be latest"),
        ("endingOffsets", "earliest", "ending offset can't be earliest for batch"),
        ("endingOffsets", '{"t":{"0":-2}}', "t-0 can't be earliest"),
    ],
)
def test_batch_has_no_latest_start_and_no_earliest_end(option: str, value: str, text: str) -> None:
    with pytest.raises(OptionValueError, match=text):
        batch(**{option: value})
    stream(**{option: value})


def test_start_and_end_are_compared_before_anything_is_read() -> None:
    with pytest.raises(OptionValueError, match="UNRESOLVED_START_OFFSET_GREATER"):
        batch(startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"0":4}}')
    with pytest.raises(OptionValueError, match="MISMATCHED_TOPIC_PARTITIONS"):
        batch(startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"1":9}}')
    with pytest.raises(OptionValueError, match="start timestamp 5 is greater"):
        batch(startingOffsetsByTimestamp='{"t":{"0":5}}', endingOffsetsByTimestamp='{"t":{"0":4}}')
    batch(startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"0":-1}}')


def test_no_path_is_an_error() -> None:
    with pytest.raises(OptionValueError, match="no path is given"):
        parse_read_options({"subscribe": "t"})


def test_path_and_paths_are_one_log() -> None:
    options = parse_read_options({"path": "/a", "paths": '["/b","/a"]'})
    assert options.paths == ("/a", "/b")


@pytest.mark.parametrize(
    "key",
    [
        "kafka.auto.offset.reset",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
    ],
)
def test_consumer_options_that_spark_refuses_are_refused(key: str) -> None:
    with pytest.raises(OptionValueError, match=f"'{key}' is not supported"):
        batch(**{key: "x"})


def test_consumer_options_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    options = batch(
        **{
            "kafka.bootstrap.servers": "host:9092",
            "kafka.group.id": "g",
            "groupIdPrefix": "p",
            "kafkaConsumer.pollTimeoutMs": "1",
            "fetchOffset.numRetries": "3",
            "maxOffsetsPerTrigger": "5",
            "checkpointLocation": "/c",
            "queryName": "q",
            "owner": "o",
            "location": "l",
            "provider": "p",
        }
    )
    with caplog.at_level(logging.WARNING):
        warn_ignored(options)
    (record,) = caplog.records
    for name in ("kafka.bootstrap.servers", "kafka.group.id", "maxOffsetsPerTrigger"):
        assert name in record.getMessage()
    assert "owner" not in record.getMessage()
    caplog.clear()
    warn_ignored(batch())
    assert not caplog.records


def test_options_of_another_use_say_whose_they_are() -> None:
    with pytest.raises(UnknownOptionError, match=r"'topic' is not one of a batch read.*a write"):
        batch(topic="t")
    with pytest.raises(UnknownOptionError, match="'view' is not one of a stream"):
        stream(view="batches")
    with pytest.raises(UnknownOptionError, match="'subscribe' is not one of a write"):
        parse_write_options({"path": "/logs", "subscribe": "t"})
    with pytest.raises(OptionValueError, match="maxOffsetsPerTrigger"):
        batch(maxOffsetsPerTrigger="none")


def test_trigger_minimum_above_maximum_is_refused() -> None:
    with pytest.raises(OptionValueError, match="minOffsetsPerTrigger"):
        stream(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="9")


def test_keywords_are_options_in_snake_case_with_python_values() -> None:
    given: dict[str, Any] = {
        "starting_offsets": {"t": {"0": 3}},
        "subscribe": ["t", "u"],
        "include_headers": True,
        "min_partitions": 4,
        "kafka_isolation_level": "read_committed",
        "ending_timestamp": None,
    }
    options = parse_read_options(keywords_to_options(["/a", "/b"], given))
    assert options.paths == ("/a", "/b")
    assert options.starting == SpecificOffsets({T0: 3})
    assert options.selection.subscribe == ("t", "u")
    assert options.include_headers
    assert options.min_partitions == 4
    assert options.is_read_committed
    assert options.ending == LatestOffsets()
    with pytest.raises(UnknownOptionError, match=r"no keyword 'startingOffsets'.*starting_offsets"):
        keywords_to_options("/a", {"startingOffsets": "earliest"})


def test_tables_hold_every_option() -> None:
    reading, writing = read_options_table(), write_options_table()
    for option in OPTIONS:
        assert (f"| `{option.name}` |" in reading) == any(
            use in option.scopes for use in (OptionScope.BATCH_READ, OptionScope.STREAM_READ)
        )
        assert (f"| `{option.name}` |" in writing) == (OptionScope.WRITE in option.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MoreOptions(ReadOptions):
    """Read options with one that is made up."""

    made_up_rows: int


def test_an_added_option_is_parsed_documented_and_a_keyword(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = Option(
        "madeUpRows", integer(1), (OptionScope.BATCH_READ,), "rows that are made up", default=5
    )
    monkeypatch.setattr(options_module, "OPTIONS", (*OPTIONS, added))
    monkeypatch.setattr(options_module, "ReadOptions", _MoreOptions)

    def made_up_rows(*, streaming: bool = False, **given: str) -> object:
        parsed = parse_read_options({"path": "/logs", **given}, streaming=streaming)
        assert isinstance(parsed, _MoreOptions)
        return parsed.made_up_rows

    assert made_up_rows(madeuprows="7") == 7
    assert made_up_rows() == 5
    assert made_up_rows(streaming=True) == 5
    with pytest.raises(UnknownOptionError, match="'madeUpRows' is not one of a stream"):
        made_up_rows(streaming=True, madeUpRows="7")
    with pytest.raises(UnknownOptionError, match="the nearest one is 'madeUpRows'"):
        made_up_rows(madeUpRow="7")
    assert "| `madeUpRows` | 5 | x |  | rows that are made up |" in read_options_table()
    assert keywords_to_options("/logs", {"made_up_rows": 3})["madeUpRows"] == "3"

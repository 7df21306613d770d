"""Batches split and built again: equal to what the plain reader reads and the builder builds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import InvalidRecordError
from spark_segmentlog.record.compact.batch_rebuild import (
    convert_messages,
    empty_batch,
    rebuild_batch,
)
from spark_segmentlog.record.layout import TimestampType
from spark_segmentlog.record.plain.batch import RecordBatchHeader, iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.testing.builder import (
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL,
    COMMIT,
    RecordSpec,
    control_batch,
    legacy_message_set,
    v2_batch,
)
from spark_segmentlog.testing.strategies import record_specs
from tests.support.splitting import rows_of, split

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


DAY_MS = 86_400_000


def header_of(batch: bytes) -> RecordBatchHeader:
    return RecordBatchHeader.unpack(memoryview(batch), 0)


def rebuilt(batch: bytes, kept: list[int], horizon: int | None = None) -> bytes:
    _, (records,) = split(batch)
    return rebuild_batch(
        header_of(batch), records, np.array(kept, np.int64), delete_horizon_ms=horizon
    )


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_rebuilt_batch_holds_the_kept_records_unchanged(codec: str, data: st.DataObject) -> None:
    records = data.draw(st.lists(record_specs(), min_size=1, max_size=12))
    kept = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    horizon = data.draw(st.none() | st.integers(0, 2**42))
    batch = v2_batch(records, base_offset=7, codec=codec, producer_id=5, base_sequence=3)
    result = rebuilt(batch, kept, horizon)
    before, after = list(iterate_records(batch)), list(iterate_records(result))
    assert after == [before[index] for index in kept]
    old, new = header_of(batch), header_of(result)
    for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(new, name) == getattr(old, name)
    assert new.delete_horizon_ms == horizon
    assert new.codec_id == old.codec_id
    assert new.max_timestamp == max(record.timestamp_ms for record in after)


def test_a_delete_horizon_becomes_the_base_timestamp_and_deltas_turn_negative() -> None:
    stamp = 1_700_000_000_000
    records = [RecordSpec(key=b"k", value=None, timestamp_ms=stamp)]
    records.append(RecordSpec(key=b"l", value=None, timestamp_ms=stamp + 1000))
    result = rebuilt(v2_batch(records), [0, 1], stamp + DAY_MS)
    expected = v2_batch(
        records,
        delete_horizon_ms=stamp + DAY_MS,
    )
    assert result == expected


def test_log_append_time_stays_with_its_largest_timestamp() -> None:
    records = [RecordSpec(key=b"k", value=b"v", timestamp_ms=stamp) for stamp in (1, 2, 3)]
    batch = v2_batch(records, log_append_time=True, max_timestamp=9000)
    result = rebuilt(batch, [1])
    assert [
        (iterate_record.offset, iterate_record.timestamp_ms)
        for iterate_record in iterate_records(result)
    ] == [(1, 9000)]
    assert header_of(result).max_timestamp == 9000


def test_an_emptied_batch_keeps_offsets_and_sequence_and_loses_codec_and_horizon() -> None:
    batch = v2_batch(
        [RecordSpec(key=b"k", value=b"v", timestamp_ms=5)] * 3,
        base_offset=100,
        codec="gzip",
        producer_id=9,
        producer_epoch=2,
        base_sequence=40,
        attributes=ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_DELETE_HORIZON | 1,
    )
    result = empty_batch(header_of(batch))
    header = header_of(result)
    assert len(result) == 61
    assert (header.base_offset, header.last_offset, header.records_count) == (100, 102, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 40)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (
        ATTRIBUTE_TRANSACTIONAL,
        -1,
        5,
    )
    assert list(iterate_records(result)) == []


def test_a_marker_is_rebuilt_with_its_horizon() -> None:
    batch = control_batch(COMMIT, base_offset=8, producer_id=4, producer_epoch=1)
    result = rebuilt(batch, [0], 77)
    before, after = list(iterate_records(batch)), list(iterate_records(result))
    assert after == before
    assert header_of(result).delete_horizon_ms == 77
    assert header_of(result).is_control


@pytest.mark.parametrize("horizon", [None, 77])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_that_stay_become_a_batch(magic: int, codec: str, horizon: int | None) -> None:
    records = [
        RecordSpec(key=b"%d" % index, value=None if index == 3 else b"v", timestamp_ms=10 + index)
        for index in range(1 if codec == "none" else 5)
    ]
    messages = legacy_message_set(magic, records, base_offset=20, codec=codec)
    stays = [20] if codec == "none" else [21, 23]

    result = convert_messages(
        np.frombuffer(messages, np.uint8), 0, np.array(stays, np.int64), delete_horizon_ms=horizon
    )

    expected = [
        iterate_message
        for iterate_message in iterate_messages(messages)
        if iterate_message.offset in stays
    ]
    found = list(iterate_records(result))
    assert [
        replace(record, timestamp_type=TimestampType.CREATE_TIME) for record in expected
    ] == found
    header = header_of(result)
    assert (header.base_offset, header.last_offset) == (stays[0], stays[-1])
    assert (header.codec_id, header.delete_horizon_ms) == (CODECS.index(codec), horizon)
    assert header.max_timestamp == max(record.timestamp_ms for record in expected)
    nobody = (header.partition_leader_epoch, header.producer_id, header.producer_epoch)
    assert (*nobody, header.base_sequence) == (-1, -1, -1, -1)


def test_a_wrapper_of_append_time_becomes_a_batch_of_append_time() -> None:
    records = [RecordSpec(key=b"k", value=b"v", timestamp_ms=5)] * 2
    wrapper = legacy_message_set(1, records, codec="gzip", log_append_time_ms=900)
    result = convert_messages(
        np.frombuffer(wrapper, np.uint8), 0, np.array([0, 1], np.int64), delete_horizon_ms=None
    )
    header = header_of(result)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 900)
    assert list(iterate_records(result)) == list(iterate_messages(wrapper))


@pytest.mark.parametrize("change", ["count_up", "count_down", "huge_count", "offset_delta"])
def test_records_that_do_not_fit_are_refused_with_their_place(change: str) -> None:
    last = 7 if change == "offset_delta" else 2
    records = [RecordSpec(key=b"k", value=b"v", offset_delta=delta) for delta in (0, 1, last)]
    overrides: dict[str, Any] = {
        "count_up": {"count": 4},
        "count_down": {"count": 2},
        "huge_count": {"count": 10**9},
        "offset_delta": {"last_offset_delta": 6},
    }[change]
    log = v2_batch([RecordSpec(value=b"a")], base_offset=0) + v2_batch(
        records, base_offset=1, **overrides
    )
    first = len(v2_batch([RecordSpec(value=b"a")], base_offset=0))
    with pytest.raises(InvalidRecordError, match=f"position {first}, base offset 1"):
        split(log)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_change_of_a_byte_is_refused_or_read_as_the_plain_reader_does(
    data: st.DataObject,
) -> None:
    records = data.draw(st.lists(record_specs(), min_size=1, max_size=4))
    batch = bytearray(v2_batch(records))
    at = data.draw(st.integers(61, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    try:
        expected = [
            (iterate_record.offset, iterate_record.timestamp_ms, iterate_record.key)
            for iterate_record in iterate_records(batch, check_crcs=False)
        ]
    except InvalidRecordError:
        with pytest.raises(InvalidRecordError):
            split(bytes(batch))
        return
    assert [row[:3] for row in rows_of(split(bytes(batch))[1])] == expected

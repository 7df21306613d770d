"""Batches of format 2: framing, offsets, timestamps, nulls, headers, corruption."""

from __future__ import annotations

import itertools
import pickle
import struct
import tracemalloc
from typing import Any

import pytest

from spark_segmentlog.errors import (
    CrcMismatchError,
    InvalidBatchError,
    InvalidRecordError,
)
from spark_segmentlog.record.plain.batch import iterate_records, parse_record_batch_header
from spark_segmentlog.testing.builder import RecordSpec, v2_batch, v2_record, varint
from tests.support.decoding import (
    both,
    failure,
    outcomes_of_decoder,
    outcomes_of_twin,
    read,
    read_offsets,
    scan,
)

T = 1_549_758_659_000


def one(value: bytes = b"v", **fields: Any) -> RecordSpec:
    return RecordSpec(value=value, **fields)


# Offsets


def test_batch_without_records_is_stepped_over() -> None:
    empty = v2_batch([], base_offset=100, last_offset_delta=9)
    data = empty + v2_batch([one()], base_offset=110)
    table = scan(data)
    assert (table.last_offset + 1).tolist() == [110, 111]
    assert both(data)[0][0] == 110
    assert parse_record_batch_header(data).next_offset == 110


def test_next_offset_comes_from_the_header_when_the_last_records_are_gone() -> None:
    records = [one(offset_delta=delta) for delta in (0, 2, 4)]
    data = v2_batch(records, base_offset=10, last_offset_delta=9)
    assert scan(data).last_offset.tolist() == [19]
    assert [row[0] for row in both(data)] == [10, 12, 14]


def test_offsets_are_base_plus_delta_not_base_plus_index() -> None:
    records = [one(offset_delta=delta) for delta in (1, 3, 7, 9)]
    data = v2_batch(records, base_offset=100, last_offset_delta=9)
    assert [row[0] for row in both(data)] == [101, 103, 107, 109]


@pytest.mark.parametrize("delta", [-1, 3])
def test_offset_outside_of_what_the_header_covers_is_an_error(delta: int) -> None:
    data = v2_batch([one(), one(offset_delta=delta)], last_offset_delta=2)
    failure(data, InvalidRecordError, f"offset delta {delta}")


def test_offsets_near_the_largest_number_do_not_wrap_around() -> None:
    base = 2**63 - 3
    assert [row[0] for row in both(v2_batch([one(), one()], base_offset=base))] == [base, base + 1]


# Counts and lengths


def test_more_records_declared_than_there_are_is_an_error() -> None:
    data = v2_batch([one(), one()], base_offset=57, count=3)
    error = failure(data, InvalidRecordError, "record 2: varint cut off after 0 bytes")
    assert (error.position, error.base_offset, error.length) == (0, 57, len(data))
    assert "file 0.log, position 0, base offset 57" in str(error)


def test_bytes_left_over_after_the_declared_records_are_an_error() -> None:
    data = v2_batch([one(), one(), one()], count=2)
    failure(data, InvalidRecordError, "bytes are left over after the 2 records")


def test_record_count_of_a_billion_is_an_error_without_its_memory() -> None:
    failure(v2_batch([one()], count=10**9), InvalidRecordError, "record 1")


@pytest.mark.parametrize("count", [-1, 10**9, 2])
def test_header_count_that_does_not_fit_is_an_error(count: int) -> None:
    record = v2_record(one(), header_count=count)
    failure(v2_batch([record]), InvalidRecordError, "header count|header 0|varint")


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize(
    ("records", "count"),
    [
        pytest.param([one(), one()], 3, id="a record too many"),
        pytest.param([one(), one(), one()], 2, id="a record too few"),
        pytest.param([one()], 10**9, id="a billion records"),
        pytest.param([v2_record(one(), header_count=-1)], 1, id="headers less than none"),
        pytest.param([v2_record(one(), header_count=10**9)], 1, id="a billion headers"),
    ],
)
def test_false_count_names_its_batch_and_takes_no_memory(
    records: list[RecordSpec | bytes], count: int, codec: str
) -> None:
    good = v2_batch([one()], base_offset=56)
    data = good + v2_batch(records, base_offset=57, count=count, codec=codec)
    read(data[: len(good)])
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecordError) as caught:
            read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"(file 0.log, position {len(good)}, base offset 57)" in str(caught.value)
    assert peak < 40 << 20
    assert list(outcomes_of_decoder(data)) == list(outcomes_of_twin(data))


@pytest.mark.parametrize("length", [-1, 0, 1, 5, 60, 2**31 - 1])
def test_record_length_that_does_not_fit_is_an_error(length: int) -> None:
    record = v2_record(one(b"v" * 10), length=length)
    failure(v2_batch([record]), InvalidRecordError, "record 0")


@pytest.mark.parametrize("field", ["key", "value", "header key", "header value"])
@pytest.mark.parametrize("length", [-2, -(2**31), 100, 2**31 - 1])
def test_field_length_that_is_no_length_is_an_error(field: str, length: int) -> None:
    fields = {
        "key": varint(length) + varint(-1) + varint(0),
        "value": varint(-1) + varint(length) + varint(0),
        "header key": varint(-1) + varint(-1) + varint(1) + varint(length) + varint(-1),
        "header value": varint(-1) + varint(-1) + varint(1) + varint(0) + varint(length),
    }
    body = b"\x00" + varint(0) + varint(0) + fields[field]
    record = varint(len(body)) + body
    failure(v2_batch([record]), InvalidRecordError, f"{length}|bytes are there")


@pytest.mark.parametrize("bad", [b"\x80" * 5 + b"\x00", b"\xff\xff\xff\xff\x7f", b"\x80"])
def test_bad_varint_in_a_record_is_an_error(bad: bytes) -> None:
    body = b"\x00" + varint(0) + bad
    failure(v2_batch([varint(len(body)) + body]), InvalidRecordError, "varint")


def test_zeros_after_the_headers_of_a_record_are_an_error() -> None:
    record = v2_record(one())[1:] + b"\x00"
    data = v2_batch([varint(len(record)) + record])
    failure(data, InvalidRecordError, "1 bytes are left over after its headers")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"count": -1}, "record count -1 is negative"),
        ({"last_offset_delta": -1}, "last offset delta -1 is negative"),
        ({"base_offset": -1}, "base offset -1 is negative"),
        ({"base_offset": 2**63 - 1}, "beyond 64 bits"),
        ({"batch_length": 48}, "length 48"),
        ({"magic": 3}, "magic 3"),
        ({"magic": -1}, "magic -1"),
    ],
)
def test_header_that_cannot_be_ends_the_scan_with_a_reason(
    fields: dict[str, Any], reason: str
) -> None:
    good = v2_batch([one()])
    bad = v2_batch([one()], **fields)
    table = scan(good + bad)
    assert (len(table), table.end_position, table.stop.name) == (1, len(good), "INVALID")
    assert reason in table.reason
    with pytest.raises(InvalidBatchError, match=reason.replace("length", "batch length")):
        parse_record_batch_header(good + bad, len(good))


def test_bad_record_is_named_by_its_number_wherever_it_is() -> None:
    records: list[RecordSpec | bytes] = [one() for _ in range(700)]
    for codec in ("none", "zstd"):
        data = v2_batch([*records, b"\x02\x00"], last_offset_delta=700, codec=codec)
        failure(data, InvalidRecordError, "record 700: varint cut off")
        with pytest.raises(InvalidRecordError, match="record 700: varint cut off"):
            read(data, validate_first=True)


# Checksums


def test_flipped_bit_in_a_value_is_told_with_both_checksums() -> None:
    data = bytearray(v2_batch([one(b"value")], base_offset=3))
    data[-3] ^= 1
    error = failure(bytes(data), CrcMismatchError, "crc mismatch: stored 0x.*, computed 0x")
    assert error.base_offset == 3
    assert read(bytes(data), check_crcs=False)[0][4] != b"value"


def test_flipped_bit_in_a_compressed_block_is_told_by_its_checksum() -> None:
    data = bytearray(v2_batch([one(b"value" * 100)], codec="zstd"))
    data[-5] ^= 1
    failure(bytes(data), CrcMismatchError, "crc mismatch")


def test_base_offset_and_leader_epoch_are_not_covered_by_the_checksum() -> None:
    first = v2_batch([one()], base_offset=0, partition_leader_epoch=0)
    moved = v2_batch([one()], base_offset=1000, partition_leader_epoch=7)
    assert first[17:21] == moved[17:21]
    assert [row[0] for row in both(first + moved)] == [0, 1000]
    assert scan(first + moved).partition_leader_epoch.tolist() == [0, 7]


# Timestamps


def test_log_append_time_is_the_time_of_every_record() -> None:
    records = [one(timestamp_delta=0), one(timestamp_delta=3_837_565)]
    data = v2_batch(records, base_timestamp=-1, max_timestamp=T, log_append_time=True)
    assert [row[1:3] for row in both(data)] == [(T, 1), (T, 1)]


def test_deltas_add_up_to_a_base_that_is_a_delete_horizon() -> None:
    day = 86_400_000
    data = v2_batch([one(timestamp_ms=T), one(timestamp_ms=T + 1000)], delete_horizon_ms=T + day)
    assert [row[1:3] for row in both(data)] == [(T, 0), (T + 1000, 0)]
    header = parse_record_batch_header(data)
    assert header.delete_horizon_ms == T + day
    assert header.max_timestamp == T + 1000
    assert scan(data).has_delete_horizon.tolist() == [True]


def test_records_older_than_the_first_keep_their_time() -> None:
    times = [T, T - 60_000, T + 1]
    data = v2_batch([one(timestamp_ms=time) for time in times])
    assert [row[1] for row in both(data)] == times
    assert scan(data).max_timestamp.tolist() == [T + 1]


def test_no_timestamp_is_minus_one() -> None:
    data = v2_batch([one(timestamp_ms=-1)])
    assert both(data)[0][1:3] == (-1, 0)


def test_timestamps_wrap_around_as_64_bits_do() -> None:
    data = v2_batch([one(timestamp_delta=2**63 - 1)], base_timestamp=-(2**63) + 2, max_timestamp=1)
    assert both(data)[0][1] == 1
    data = v2_batch([one(timestamp_delta=-(2**63))], base_timestamp=-(2**63) + 5, max_timestamp=1)
    assert both(data)[0][1] == 5


# Null and empty


def test_null_and_empty_keys_and_values_stay_apart() -> None:
    cases = list(itertools.product([None, b"", b"x"], repeat=2))
    data = v2_batch([RecordSpec(key=key, value=value) for key, value in cases])
    assert [row[3:5] for row in both(data)] == cases


def test_null_and_empty_header_values_stay_apart_and_no_headers_are_null() -> None:
    records = [
        one(headers=[("trace-id", None), ("x", b""), ("", b"y"), ("x", b"again")]),
        one(),
    ]
    assert [row[5] for row in both(v2_batch(records))] == [
        (("trace-id", None), ("x", b""), ("", b"y"), ("x", b"again")),
        None,
    ]


def test_null_header_key_is_an_error() -> None:
    data = v2_batch([one(headers=[(None, b"v")])])
    failure(data, InvalidRecordError, "header 0 key is null")


def test_header_key_that_is_no_utf8_is_replaced_as_kafka_does() -> None:
    records = [one(headers=[(b"\xff\xfea", b"v"), ("\u30ad", None)])]
    assert both(v2_batch(records))[0][5] == (("\ufffd\ufffda", b"v"), ("\u30ad", None))


def test_attributes_of_a_record_are_ignored() -> None:
    record = bytearray(v2_record(one()))
    record[1] = 0xFF
    assert len(both(v2_batch([bytes(record)]))) == 1


# The rest


def test_cut_header_and_cut_batch_are_told_apart() -> None:
    data = v2_batch([one()])
    with pytest.raises(InvalidBatchError, match="61 are needed"):
        parse_record_batch_header(data[:60])
    with pytest.raises(InvalidBatchError, match="bytes, 65 are there"):
        list(iterate_records(data[:65]))


def test_unknown_codecs_are_errors() -> None:
    for codec in (5, 6, 7):
        data = v2_batch([one()], attributes=codec)
        failure(data, InvalidBatchError, f"compression codec {codec} in format 2")


def test_errors_survive_pickling() -> None:
    error = failure(v2_batch([one()], count=2), InvalidRecordError, "record 1")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is InvalidRecordError
    assert (copy.reason, copy.position, str(copy)) == (error.reason, error.position, str(error))


def test_offsets_that_a_batch_covers_span_more_than_31_bits_between_batches() -> None:
    bases = [0, 10, 3_000_000_000, 3_000_000_005]
    data = b"".join(v2_batch([one()], base_offset=base) for base in bases)
    assert read_offsets(data) == bases


def test_sequence_and_producer_are_in_the_table() -> None:
    data = v2_batch([one()], producer_id=2**40, producer_epoch=5, base_sequence=77)
    table = scan(data)
    fields = (table.producer_id[0], table.producer_epoch[0], table.base_sequence[0])
    assert fields == (2**40, 5, 77)
    assert table.crc[0] == struct.unpack_from(">I", data, 17)[0]

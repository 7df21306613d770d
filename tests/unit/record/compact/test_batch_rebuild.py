"""Batches split and built again: equal to what the plain reader reads and the builder builds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import DecompressedSizeError, InvalidRecordError
from spark_segmentlog.record.compact.batch_rebuild import (
    convert_messages,
    empty_batch,
    rebuild_batch,
)
from spark_segmentlog.record.compact.batch_records import BatchRecords, split_batches
from spark_segmentlog.record.kernels import filter as kernels
from spark_segmentlog.record.layout import TimestampType
from spark_segmentlog.record.plain.batch import RecordBatchHeader, iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import scan_headers
from spark_segmentlog.record.types import flat_bytes
from spark_segmentlog.testing.builder import (
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL,
    COMMIT,
    RecordSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    v2_batch,
)
from spark_segmentlog.testing.strategies import record_specs
from tests.support.decoding import room_of

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DAY_MS = 86_400_000


def split(data: bytes) -> tuple[np.ndarray, list[BatchRecords]]:
    buffer = flat_bytes(np.frombuffer(data, np.uint8))
    table = scan_headers(buffer, 0, len(buffer), file_position=0)
    rows = np.arange(len(table))
    parts = []
    for records in split_batches(buffer, table, rows, file_position=0, source="test"):
        # The next one may reuse the buffer.
        parts.append(_frozen(records))
    return buffer, parts


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
@pytest.mark.parametrize("room_bytes", [1, 100, 1000])
def test_large_batches_come_in_parts_with_the_same_records(codec: str, room_bytes: int) -> None:
    data = b"".join(
        v2_batch(
            [RecordSpec(key=b"k%d" % row, value=b"v" * row) for row in range(count)],
            base_offset=100 * at,
            codec=codec,
        )
        for at, count in enumerate([50, 1, 30])
    )
    expected = split(data)[1]
    with room_of(room_bytes):
        parts = split(data)[1]
    assert any(part.is_part for part in parts)
    assert rows_of(parts) == rows_of(expected)
    assert [part.batch.tolist() for part in parts] != [part.batch.tolist() for part in expected]
    copied = BatchRecords.concat([part.copy_of(np.arange(len(part))) for part in parts])
    assert rows_of([copied]) == rows_of(expected)


@pytest.mark.parametrize(
    ("count", "reason"), [(51, "record 50: varint cut off"), (49, "left over after the 49")]
)
def test_large_batch_with_another_number_of_records_is_told(count: int, reason: str) -> None:
    data = v2_batch([RecordSpec(value=b"v" * 20)] * 50, count=count, codec="lz4")
    with room_of(100), pytest.raises(InvalidRecordError, match=reason):
        split(data)


def test_large_batch_that_declares_more_than_it_can_hold_is_told() -> None:
    block = b"\xff\xff\xff\xff\x0f" + b"x" * 20
    with pytest.raises(DecompressedSizeError, match="position 0, base offset 7"):
        split(v2_batch([RecordSpec()], base_offset=7, attributes=2, payload=block))


def _frozen(records: BatchRecords) -> BatchRecords:
    fields = {name: getattr(records, name) for name in BatchRecords.__slots__}
    return BatchRecords(**{**fields, "buffer": records.buffer.copy()})


def rows_of(parts: list[BatchRecords]) -> list[tuple[int, int, bytes | None, int]]:
    rows = []
    for part in parts:
        data = part.buffer.tobytes()
        for offset, stamp, at, length, value_length in zip(
            part.offset,
            part.timestamp_ms,
            part.key_position,
            part.key_length,
            part.value_length,
            strict=True,
        ):
            key = None if length < 0 else data[at : at + length]
            rows.append((int(offset), int(stamp), key, int(value_length)))
    return rows


def header_of(batch: bytes) -> RecordBatchHeader:
    return RecordBatchHeader.unpack(memoryview(batch), 0)


def rebuilt(batch: bytes, kept: list[int], horizon: int | None = None) -> bytes:
    _, (records,) = split(batch)
    return rebuild_batch(
        header_of(batch), records, np.array(kept, np.int64), delete_horizon_ms=horizon
    )


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(records=st.lists(record_specs(), min_size=1, max_size=20))
def test_records_are_found_as_the_plain_reader_finds_them(
    codec: str, records: list[RecordSpec]
) -> None:
    batch = v2_batch(records, base_offset=100, codec=codec)
    expected = [
        (
            record.offset,
            record.timestamp_ms,
            record.key,
            -1 if record.value is None else len(record.value),
        )
        for record in iterate_records(batch)
    ]
    assert rows_of(split(batch)[1]) == expected


def test_runs_of_plain_compressed_and_legacy_batches_keep_their_order() -> None:
    log = b"".join(
        [
            legacy_message(0, key=b"a", value=b"0", offset=0),
            v2_batch([RecordSpec(key=b"b", value=None)], base_offset=1),
            v2_batch([RecordSpec(key=b"c", value=b"")] * 2, base_offset=2, codec="lz4"),
            v2_batch([RecordSpec(key=None, value=b"x")], base_offset=4, codec="zstd"),
            v2_batch([RecordSpec(key=b"", value=b"y")], base_offset=5),
        ]
    )
    rows = rows_of(split(log)[1])
    assert [(offset, key, length) for offset, _, key, length in rows] == [
        (0, b"a", 1),
        (1, b"b", -1),
        (2, b"c", 0),
        (3, b"c", 0),
        (4, None, 1),
        (5, b"", 1),
    ]


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
    assert [(it.offset, it.timestamp_ms) for it in iterate_records(result)] == [(1, 9000)]
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

    expected = [it for it in iterate_messages(messages) if it.offset in stays]
    found = list(iterate_records(result))
    assert [replace(it, timestamp_type=TimestampType.CREATE_TIME) for it in expected] == found
    header = header_of(result)
    assert (header.base_offset, header.last_offset) == (stays[0], stays[-1])
    assert (header.codec_id, header.delete_horizon_ms) == (CODECS.index(codec), horizon)
    assert header.max_timestamp == max(it.timestamp_ms for it in expected)
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
            (it.offset, it.timestamp_ms, it.key) for it in iterate_records(batch, check_crcs=False)
        ]
    except InvalidRecordError:
        with pytest.raises(InvalidRecordError):
            split(bytes(batch))
        return
    assert [row[:3] for row in rows_of(split(bytes(batch))[1])] == expected


# The hash and the table


def hashed(keys: list[bytes], secret: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(key) for key in keys], np.int64)
    buffer = flat_bytes(np.frombuffer(b"".join(keys) + bytes(8), np.uint8))
    low, high = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
    kernels.hash_keys(
        buffer, np.cumsum(lengths) - lengths, lengths, np.array(secret, np.uint64), low, high
    )
    return low, high


def plain_siphash(data: bytes, secret: tuple[int, int]) -> bytes:
    """SipHash-2-4, 128 bits, as its paper writes it."""
    mask = 2**64 - 1
    k0, k1 = secret
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & mask, (v[0] + v[3]) & mask
            v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF]), "little"))
    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return low.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


SECRET = (
    int.from_bytes(bytes(range(8)), "little"),
    int.from_bytes(bytes(range(8, 16)), "little"),
)


def test_the_hash_is_that_of_the_published_vectors() -> None:
    low, high = hashed([b"", b"\0"], SECRET)
    assert low.tobytes()[:8] + high.tobytes()[:8] == bytes.fromhex(
        "a3817f04ba25a8e66df67214c7550293"
    )
    assert low.tobytes()[8:] + high.tobytes()[8:] == bytes.fromhex(
        "da87c1d86b99af44347659119b22fc45"
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20))
def test_the_hash_equals_its_plain_twin(keys: list[bytes]) -> None:
    low, high = hashed(keys, SECRET)
    for index, key in enumerate(keys):
        assert low[index].tobytes() + high[index].tobytes() == plain_siphash(key, SECRET)


@settings(max_examples=100, deadline=None)
@given(
    puts=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=120),
    slots_bits=st.integers(1, 6),
)
def test_the_table_holds_the_latest_offset_of_a_key_and_says_when_it_is_full(
    puts: list[tuple[int, bool]], slots_bits: int
) -> None:
    table = np.zeros(kernels.ENTRY_WORDS << slots_bits, np.uint64)
    max_keys = (1 << slots_bits) * 3 // 4
    keys = [b"%d" % key for key, _ in puts]
    low, high = hashed(keys or [b""], SECRET)
    wanted = np.array([is_wanted for _, is_wanted in puts], np.bool_)
    offsets = np.arange(len(puts), dtype=np.int64)
    count, done = kernels.put_offsets(
        table, low[: len(puts)], high[: len(puts)], offsets, wanted, 0, max_keys
    )
    model: dict[bytes, int] = {}
    expected_done = len(puts)
    for row, (key, (_, is_wanted)) in enumerate(zip(keys, puts, strict=True)):
        if is_wanted and key not in model and len(model) == max_keys:
            expected_done = row
            break
        if is_wanted:
            model[key] = row
    assert (count, done) == (len(model), expected_done)
    found = np.empty(len(low), np.int64)
    kernels.find_offsets(table, low, high, found)
    assert found[: len(keys)].tolist() == [model.get(key, -1) for key in keys]

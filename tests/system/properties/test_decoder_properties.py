"""The compiled decoder reads what the plain twins read, on good bytes and on hostile ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.record.layout import LOG_PREFIX, MAGIC_V2, MIN_MESSAGE_SIZE_V0
from spark_segmentlog.record.read.header_table import check_crcs, find_next_batch, scan_headers
from spark_segmentlog.record.read.record_check import RecordCheck
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.testing.builder import (
    CODECS,
    RecordSpec,
    legacy_message_set,
    legacy_wrapper,
    v2_batch,
    v2_record,
)
from spark_segmentlog.testing.strategies import record_specs
from tests.support.decoding import (
    MALFORMED_TIMESTAMP,
    Failure,
    as_array,
    outcomes_of_decoder,
    outcomes_of_one_decoder,
    outcomes_of_twin,
    read,
    read_plainly,
    room_of,
    rows_before_failure,
    rows_of_twin_before_failure,
    scan,
)

V2_CODECS = [name for name in CODECS if name != "lz4-legacy-checksum"]
LEGACY_CODECS = {0: ("none", "gzip", "lz4-legacy-checksum"), 1: ("none", "snappy-raw", "lz4")}
base_offsets = st.sampled_from([0, 1, 57, 2**31, 2**40])


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    """A batch, a few messages or a wrapper."""
    magic = draw(st.sampled_from([2, 2, 1, 0]))
    base = draw(base_offsets)
    if magic == 2:
        records = draw(st.lists(record_specs(), max_size=6))
        codec, append = draw(st.sampled_from(V2_CODECS)), draw(st.booleans())
        return v2_batch(records, base_offset=base, codec=codec, log_append_time=append)
    pairs = draw(st.lists(st.tuples(st.none() | st.binary(max_size=9), st.binary(max_size=30))))
    records = [RecordSpec(key=key, value=value) for key, value in pairs] or [RecordSpec()]
    codec = draw(st.sampled_from(LEGACY_CODECS[magic]))
    append_time = draw(st.none() | st.integers(0, 2**40)) if magic else None
    return legacy_message_set(
        magic, records, base_offset=base, codec=codec, log_append_time_ms=append_time
    )


logs = st.lists(entries(), max_size=4).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn, source: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with some of them changed, dropped, doubled or cut."""
    data = bytearray(draw(source))
    for _ in range(draw(st.integers(1, 4))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(["set", "flip", "drop", "insert", "cut"]))
        if kind == "set":
            data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFE, 0xFF]))
        elif kind == "flip":
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "drop":
            del data[at : at + draw(st.integers(1, 3))]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=3))
        elif kind == "cut":
            del data[at:]
    return bytes(data)


@given(logs, st.integers(1, 9), st.integers(1, 300))
def test_good_bytes_are_read_alike_however_they_are_cut(
    data: bytes, max_rows: int, max_bytes: int
) -> None:
    expected = read_plainly(data)
    assert read(data) == expected
    assert read(data, max_arrow_rows=max_rows, max_arrow_bytes=max_bytes) == expected


@given(
    logs,
    st.integers(-1, 70),
    st.integers(-1, 70),
    st.none() | st.integers(-2, 2**41),
    st.none() | st.integers(-2, 2**41),
)
def test_filter_equals_filtering_everything(
    data: bytes, start: int, end: int, low: int | None, high: int | None
) -> None:
    bounds = RecordFilter(
        start_offset=start, end_offset=end, min_timestamp_ms=low, max_timestamp_ms=high
    )
    expected = [
        row
        for row in read_plainly(data)
        if start <= row[0] < end
        and (low is None or row[1] >= low)
        and (high is None or row[1] <= high)
    ]
    assert read(data, record_filter=bounds) == expected


@given(mutated(logs), st.booleans())
def test_mutated_logs_are_read_alike(data: bytes, check: bool) -> None:
    found = list(outcomes_of_decoder(data, check_crcs=check))
    assert found == list(outcomes_of_twin(data, check_crcs=check))


@given(mutated(logs))
def test_records_are_found_good_that_can_be_decoded(data: bytes) -> None:
    array, table = as_array(data), scan(data)
    # Whoever has records of batches checked has compared their checksums.
    unchecked = list(outcomes_of_decoder(data, check_crcs=False))
    checked = list(outcomes_of_decoder(data))
    for row in range(len(table)):
        outcome = (unchecked if table.magic[row] == MAGIC_V2 else checked)[row]
        is_bad = isinstance(outcome, Failure) and outcome != MALFORMED_TIMESTAMP
        entry = table.between(row, row + 1)
        assert RecordCheck().is_good(array, entry, file_position=0) is not is_bad


@st.composite
def zstd_batches(draw: st.DrawFn) -> bytes:
    """Many small batches, some bad though their checksum is good: blocks that are joined."""
    data, offset = b"", 0
    for _ in range(draw(st.integers(1, 8))):
        count = draw(st.integers(0, 4))
        records = [RecordSpec(key=b"k", value=b"v" * place) for place in range(count)]
        body = v2_batch(records, codec="zstd")[61:]
        kind = draw(st.sampled_from(["good", "good", "good", "count", "tail", "cut", "empty"]))
        declared = count + draw(st.integers(-1, 2)) if kind == "count" else count
        body += draw(st.binary(max_size=5)) if kind == "tail" else b""
        body = body[: draw(st.integers(0, len(body)))] if kind == "cut" else body
        body = b"" if kind == "empty" else body
        data += v2_batch(
            payload=body,
            count=max(declared, 0),
            attributes=4,
            base_offset=offset,
            last_offset_delta=5,
            base_timestamp=0,
        )
        offset += 6
    return data


@given(st.one_of(zstd_batches(), logs), st.integers(1, 9))
def test_one_decoder_over_all_entries_equals_one_for_each(data: bytes, max_rows: int) -> None:
    expected = list(outcomes_of_twin(data))
    rows = [row for outcome in expected if isinstance(outcome, list) for row in outcome]
    failures = [outcome for outcome in expected if not isinstance(outcome, list)]
    assert outcomes_of_one_decoder(data, max_arrow_rows=max_rows) == [*rows, *failures]


# Batches that do not fit where ordinary ones are decompressed


def places(outcomes: list[Any]) -> list[Any]:
    """Rows, and where failures lie: a block that is bad twice is told by what is met first."""
    return [
        (outcome.position, outcome.base_offset, outcome.length)
        if isinstance(outcome, Failure)
        else outcome
        for outcome in outcomes
    ]


@given(
    st.one_of(logs, zstd_batches(), mutated(logs)),
    st.sampled_from([1, 16, 40, 100, 1000]),
    st.booleans(),
)
def test_streamed_batches_are_read_as_whole_ones(data: bytes, size: int, check: bool) -> None:
    whole = list(outcomes_of_decoder(data, check_crcs=check))
    with room_of(size):
        streamed = list(outcomes_of_decoder(data, check_crcs=check))
        assert streamed == list(outcomes_of_twin(data, check_crcs=check))
    assert places(streamed) == places(whole)


@given(
    st.one_of(logs, zstd_batches()),
    st.sampled_from([1, 16, 40, 100, 1000]),
    st.integers(1, 9),
    st.integers(1, 300),
)
def test_streamed_batches_are_read_alike_however_rows_are_cut(
    data: bytes, size: int, max_rows: int, max_bytes: int
) -> None:
    expected = outcomes_of_one_decoder(data)
    with room_of(size):
        found = outcomes_of_one_decoder(data, max_arrow_rows=max_rows, max_arrow_bytes=max_bytes)
    assert places(found) == places(expected)


@given(logs, st.integers(1, 200), st.integers(0, 400))
def test_limit_on_decompressed_bytes_is_kept_alike_however_blocks_are_read(
    data: bytes, size: int, limit: int
) -> None:
    whole = list(outcomes_of_decoder(data, max_decompressed_bytes=limit))
    with room_of(size):
        streamed = list(outcomes_of_decoder(data, max_decompressed_bytes=limit))
    assert streamed == whole


records_bytes = st.lists(record_specs(), max_size=4).map(
    lambda specs: b"".join(
        v2_record(spec, offset_delta=place, timestamp_delta=spec.timestamp_ms)
        for place, spec in enumerate(specs)
    )
)


@settings(max_examples=300)
@given(
    st.one_of(mutated(records_bytes), st.binary(max_size=80)),
    st.integers(0, 5),
    st.sampled_from(["none", "snappy-raw"]),
    st.integers(0, 4),
)
def test_hostile_records_with_good_checksums_are_read_alike(
    body: bytes, count: int, codec: str, last_delta: int
) -> None:
    data = v2_batch(
        [body], count=count, codec=codec, last_offset_delta=last_delta, base_timestamp=0
    )
    assert list(outcomes_of_decoder(data)) == list(outcomes_of_twin(data))


@settings(max_examples=300)
@given(
    st.one_of(mutated(records_bytes), st.binary(max_size=80)),
    st.integers(0, 5),
    st.integers(0, 4),
    st.sampled_from([0, 2**40, 2**62]),
    st.integers(1, 3),
)
def test_hostile_records_that_nobody_checks_before_are_read_alike(
    body: bytes, count: int, last_delta: int, base_timestamp: int, max_rows: int
) -> None:
    data = v2_batch(
        [body], count=count, last_offset_delta=last_delta, base_timestamp=base_timestamp
    )
    expected = rows_of_twin_before_failure(data)
    assert rows_before_failure(data) == expected
    assert rows_before_failure(data, max_arrow_rows=max_rows) == expected


@given(
    st.one_of(
        mutated(st.just(legacy_message_set(1, [RecordSpec(value=b"v"), RecordSpec(key=b"k")]))),
        mutated(st.just(legacy_message_set(0, [RecordSpec(value=b"v"), RecordSpec(key=b"k")]))),
        st.binary(max_size=60),
    ),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1, 5, 2**62]),
    st.booleans(),
)
def test_hostile_wrappers_with_good_checksums_are_read_alike(
    inner: bytes, magic: int, offset: int, check: bool
) -> None:
    data = legacy_wrapper(magic, inner, offset=offset, codec="snappy-raw")
    found = list(outcomes_of_decoder(data, check_crcs=check))
    assert found == list(outcomes_of_twin(data, check_crcs=check))


@given(st.one_of(st.binary(max_size=300), mutated(logs)))
def test_scan_of_any_bytes_tiles_them(data: bytes) -> None:
    table = scan(data)
    positions, sizes = table.position.tolist(), table.size_bytes.tolist()
    ends = [position + size for position, size in zip(positions, sizes, strict=True)]
    assert positions == [0, *ends][: len(positions)]
    assert table.end_position == ([0, *ends])[-1]
    assert all(size >= 12 + MIN_MESSAGE_SIZE_V0 for size in sizes)
    for position, size in zip(positions, sizes, strict=True):
        assert LOG_PREFIX.unpack_from(data, position)[1] == size - 12
    good = check_crcs(as_array(data), table, file_position=0)
    failed = [
        not isinstance(outcome, list) and "Crc" in outcome.kind.__name__
        for outcome in outcomes_of_twin(data)
    ]
    wrong = ~good & ~table.is_control
    # A wrapper with a good checksum may hold a message with a wrong one.
    assert (wrong <= np.array(failed, bool)).all()


@given(st.binary(max_size=40), logs, st.integers(0, 60))
def test_search_finds_the_first_good_entry(garbage: bytes, log: bytes, min_offset: int) -> None:
    data = garbage + log
    array = as_array(data)
    found = find_next_batch(array, 0, len(data), file_position=7, min_offset=min_offset)

    def is_start(position: int) -> bool:
        table = scan_headers(array, position, len(data), file_position=0, max_entries=1)
        if not len(table) or table.last_offset[0] < min_offset:
            return False
        return bool(check_crcs(array, table, file_position=0)[0])

    starts = [position for position in range(len(data)) if is_start(position)]
    assert found == (starts[0] + 7 if starts else -1)

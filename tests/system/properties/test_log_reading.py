"""Reads of random logs, with random filters, equal filtering a list."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.testing.builder import DEFAULT_TIMESTAMP_MS, LogBuilder, SegmentSpec
from spark_segmentlog.testing.strategies import GeneratedLog, partition_logs
from tests.support.reading import column, open_one

SPREAD_MS = 1100
NONSENSE = struct.pack(">iiii", 3, 7, 1, 5)
NONSENSE_TIMES = struct.pack(">qiqi", DEFAULT_TIMESTAMP_MS, 9, DEFAULT_TIMESTAMP_MS - 5, 2)

offset_bounds = st.integers(0, 80)
time_bounds = st.none() | st.integers(
    DEFAULT_TIMESTAMP_MS - SPREAD_MS, DEFAULT_TIMESTAMP_MS + SPREAD_MS
)
directory_states = st.fixed_dictionaries(
    {
        "clean": st.booleans(),
        "recovery_point": st.none() | st.integers(0, 40),
        "snapshots": st.booleans(),
        "index": st.sampled_from([True, True, False, bytes(8192), NONSENSE]),
        "time_index": st.sampled_from([True, True, False, bytes(12_000), NONSENSE_TIMES]),
        "tail": st.sampled_from([b"", b"", bytes(100), b"\x00\x00\x00"]),
    }
)


def _build(path: Path, log: GeneratedLog, state: dict[str, Any]) -> None:
    builder = LogBuilder(path)
    segments = [
        SegmentSpec(
            batches,
            base_offset=0 if place == 0 else None,
            index=state["index"],
            time_index=state["time_index"],
            index_interval_bytes=150,
        )
        for place, batches in enumerate(log.segments)
    ]
    last = segments[-1]
    segments[-1] = SegmentSpec(
        last.batches,
        base_offset=last.base_offset,
        index=last.index,
        time_index=last.time_index,
        index_interval_bytes=150,
        final_time_entry=state["clean"],
        tail=state["tail"],
    )
    builder.partition("t", 0, segments, snapshots=state["snapshots"])
    if state["clean"]:
        builder.clean_shutdown()
    if state["recovery_point"] is not None:
        # A recovery point lies at or below the end, and all before it was flushed.
        point = min(state["recovery_point"], log.model.log_end_offset)
        builder.recovery_points({("t", 0): point})


@settings(max_examples=80)
@given(
    partition_logs(),
    directory_states,
    offset_bounds,
    offset_bounds,
    time_bounds,
    time_bounds,
    st.booleans(),
)
def test_filtered_reads_equal_filtering_a_full_read(
    log: GeneratedLog,
    state: dict[str, Any],
    start: int,
    end: int,
    low: int | None,
    high: int | None,
    committed: bool,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        _build(Path(directory), log, state)
        partition = open_one(Path(directory))
        options = ScanOptions(
            columns=("value", "offset"),
            record_filter=RecordFilter(
                start_offset=start, end_offset=end, min_timestamp_ms=low, max_timestamp_ms=high
            ),
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        rows = log.model.rows(
            start, end, min_timestamp_ms=low, max_timestamp_ms=high, read_committed=committed
        )
        expected = [row.offset for row in rows]
        assert column(partition.scan(options=options), "offset") == expected
        # The same, as tasks of one segment read it.
        last = partition.last_stable_offset() if committed else partition.log_end_offset
        tasks = []
        for segment in partition.segments_between(start, min(end, last)):
            bound = segment.end_offset_bound
            until = min(end, last) if bound is None else min(end, last, bound)
            task = ScanOptions(
                columns=("offset",),
                record_filter=RecordFilter(
                    start_offset=max(start, segment.base_offset),
                    end_offset=until,
                    min_timestamp_ms=low,
                    max_timestamp_ms=high,
                ),
                isolation_level=options.isolation_level,
            )
            tasks += column(scan_segments([segment], task), "offset")
        assert tasks == expected


@settings(max_examples=60)
@given(partition_logs(), directory_states)
def test_bounds_equal_the_models(log: GeneratedLog, state: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        _build(Path(directory), log, state)
        partition = open_one(Path(directory))
        assert partition.log_start_offset == 0
        assert partition.log_end_offset == log.model.log_end_offset
        assert partition.last_stable_offset() == log.model.last_stable_offset


@settings(max_examples=60)
@given(partition_logs(transactions=False), directory_states, time_bounds)
def test_the_first_offset_at_or_after_a_time_equals_the_models(
    log: GeneratedLog, state: dict[str, Any], time: int | None
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        _build(Path(directory), log, state)
        wanted = DEFAULT_TIMESTAMP_MS if time is None else time
        found = open_one(Path(directory)).offset_for_timestamp(wanted)
        assert found == log.model.offset_for_timestamp(wanted)


@settings(max_examples=120)
@given(
    partition_logs(max_batches=4),
    st.integers(0, 2**32),
    st.integers(0, 7),
    st.sampled_from(["flip", "cut", "zeros", "insert"]),
    st.booleans(),
)
def test_damaged_files_give_only_our_errors_and_only_right_rows(
    log: GeneratedLog, at: int, bit: int, damage: str, committed: bool
) -> None:
    """Offset, size and leader epoch aside, a row that comes out of a damaged file is a true one."""
    with tempfile.TemporaryDirectory() as directory:
        builder = LogBuilder(directory)
        builder.partition("t", 0, [SegmentSpec(log.batches, base_offset=0)])
        path = builder.path / "t-0" / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        if not data:
            return
        at %= len(data)
        if damage == "flip":
            data[at] ^= 1 << bit
        elif damage == "cut":
            del data[at:]
        elif damage == "zeros":
            data[at:] = bytes(len(data) - at)
        else:
            data[at:at] = b"\xca\xfe" * (bit + 1)
        path.write_bytes(data)
        options = ScanOptions(
            columns=("offset", "value"),
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        for skip in (False, True):
            _read_damaged(Path(directory), options, skip, log)


def _read_damaged(path: Path, options: ScanOptions, skip: bool, log: GeneratedLog) -> None:
    wanted = ScanOptions(
        columns=options.columns, isolation_level=options.isolation_level, skip_corrupt=skip
    )
    known = {row.value for row in log.model.rows()}
    try:
        partition = open_one(path, skip_corrupt=skip)
        values = column(partition.scan(options=wanted), "value")
    except CorruptRecordError:
        assert not skip
        return
    assert set(values) <= known


@pytest.mark.parametrize("magic_bytes", [b"\x00", b"\xff", b"\x02"])
def test_files_of_one_byte_over_and_over_end_or_fail_at_once(
    tmp_path: Path, magic_bytes: bytes
) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[magic_bytes * 3_000_000]])
    assert open_one(tmp_path, skip_corrupt=True).log_end_offset == 0
    log = open_one(tmp_path)
    if magic_bytes == b"\xff":
        with pytest.raises(CorruptRecordError):
            _ = log.log_end_offset
    else:
        # Zeros, and a length that reaches beyond the file, are ends.
        assert log.log_end_offset == 0

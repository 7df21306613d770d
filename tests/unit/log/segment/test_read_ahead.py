"""Large segments are read a piece ahead, by a thread: the same rows and errors as without it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from spark_segmentlog.errors import CrcMismatchError, InvalidBatchError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES, READ_BUFFER_BYTES
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch

VALUE = bytes(range(256)) * 40
BATCHES = 3 * READ_BUFFER_BYTES // len(VALUE)
OFFSETS = ScanOptions(columns=("offset",))


def build(path: Path, count: int) -> Path:
    batches = [v2_batch([RecordSpec(value=VALUE)], base_offset=offset) for offset in range(count)]
    return LogBuilder(path).partition("t", 0, [batches]) / f"{0:020d}.log"


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    path = build(tmp_path, BATCHES)
    assert path.stat().st_size > FIRST_READ_BYTES + 2 * READ_BUFFER_BYTES
    return path


def scan(path: Path, options: ScanOptions = OFFSETS) -> list[int]:
    log = PartitionLog.open(str(path.parent))
    return [offset for batch in log.scan(options=options) for offset in batch[0].to_pylist()]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_every_row_of_every_piece_comes_once_and_in_order(log_path: Path) -> None:
    assert scan(log_path) == list(range(BATCHES))


def test_values_are_those_of_their_own_piece(log_path: Path) -> None:
    log = PartitionLog.open(str(log_path.parent))
    values = [batch[0].to_pylist() for batch in log.scan(options=ScanOptions(columns=("value",)))]
    assert [value for batch in values for value in batch] == [VALUE] * BATCHES


def test_a_range_that_ends_inside_is_read_to_its_end_only(log_path: Path) -> None:
    wanted = RecordFilter(start_offset=5, end_offset=BATCHES // 2)
    options = ScanOptions(columns=("offset",), record_filter=wanted)
    flip(log_path, log_path.stat().st_size - 10)
    assert scan(log_path, options) == list(range(5, BATCHES // 2))


@pytest.mark.parametrize(("field", "error"), [(100, CrcMismatchError), (8, InvalidBatchError)])
def test_bad_bytes_are_an_error_after_the_rows_before_them(
    log_path: Path, field: int, error: type[Exception]
) -> None:
    bad = BATCHES - 20
    flip(log_path, bad * (log_path.stat().st_size // BATCHES) + field)
    log = PartitionLog.open(str(log_path.parent))
    rows = log.scan(options=OFFSETS, end_offset=BATCHES)
    read: list[int] = []
    with pytest.raises(error):
        read.extend(row for batch in rows for row in batch[0].to_pylist())
    assert read == list(range(len(read)))
    skipping = ScanOptions(columns=("offset",), skip_corrupt=True)
    assert scan(log_path, skipping) == [number for number in range(BATCHES) if number != bad]


def test_a_scan_that_is_given_up_leaves_no_thread(tmp_path: Path) -> None:
    path = build(tmp_path, 4 * BATCHES)
    before = set(threading.enumerate())
    options = ScanOptions(columns=("offset", "value"))
    rows = PartitionLog.open(str(path.parent)).scan(options=options)
    assert isinstance(rows, Generator)
    assert 0 < next(rows).num_rows < 2 * BATCHES
    (thread,) = set(threading.enumerate()) - before
    assert thread.name.startswith("segmentlog-read-ahead")
    rows.close()

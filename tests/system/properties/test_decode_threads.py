"""Reads in threads equal reads in the caller alone: the same rows, or the same error."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.partition.scan import scan_pieces, scan_segments
from spark_segmentlog.log.segment import piece_choice, scanner
from spark_segmentlog.log.segment.decode_threads import decode_pieces
from spark_segmentlog.log.segment.piece_choice import ChosenPiece
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.testing.builder import LogBuilder
from spark_segmentlog.testing.strategies import GeneratedLog, partition_logs
from tests.support.broker_data import ISOLATION_LEVELS, PRODUCERS, STATES, BrokerLog
from tests.support.reading import open_one, scan_options

COLUMNS = ("offset", "key", "value", "timestamp", "timestampType", "headers")


@contextmanager
def small_pieces(size_bytes: int) -> Iterator[None]:
    """Read in small pieces, each of which is worth a thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece_choice, "WORTH_A_THREAD_BYTES", 1)
        patch.setattr(ChosenPiece, "is_slow", True)
        patch.setattr(scanner, "APART_BYTES", size_bytes)
        patch.setattr(scanner, "ReadBuffer", lambda *_: ReadBuffer(size_bytes))
        yield


def outcome(batches: Callable[[], Iterable[pa.RecordBatch]]) -> Any:
    """Give the rows of a read, or its error."""
    try:
        return [row for batch in batches() for row in batch.to_pylist()]
    except SegmentLogError as error:
        return type(error), str(error)


@settings(max_examples=60)
@given(
    partition_logs(),
    st.integers(0, 60),
    st.integers(20, 80),
    st.booleans(),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 2000), st.integers(1, 255)),
    st.sampled_from([150, 400, 5000]),
)
def test_a_scan_gives_the_same_in_threads(
    log: GeneratedLog,
    start: int,
    end: int,
    committed: bool,
    fails: bool,
    damage: tuple[int, int] | None,
    size_bytes: int,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        builder = LogBuilder(Path(directory))
        builder.partition("t", 0, log.segments)
        builder.clean_shutdown()
        partition = open_one(Path(directory))
        segments = list(partition.segments_between(start, end))
        if damage is not None and segments:
            file = Path(segments[0].log_path)
            data = bytearray(file.read_bytes())
            if data:
                data[damage[0] % len(data)] ^= damage[1]
            file.write_bytes(data)
        options = scan_options(
            columns=COLUMNS, start=start, end=end, committed=committed, fail_on_data_loss=fails
        )
        with small_pieces(size_bytes):
            alone = outcome(lambda: scan_segments(segments, options))
            threads = outcome(lambda: decode_pieces(scan_pieces(segments, options), 3))
        assert threads == alone


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_brokers_logs_give_the_same_in_threads(
    broker_log: Callable[[str, str], BrokerLog], producer: str, state: str
) -> None:
    directories = list(broker_log(producer, state).log_directories)
    for level in ISOLATION_LEVELS:
        read = partial(read_arrow, directories, include_headers=True, kafka_isolation_level=level)
        alone = read(use_threads=False).read_all()
        cores = pa.cpu_count()
        pa.set_cpu_count(3)
        try:
            with small_pieces(4096):
                threads = read().read_all()
        finally:
            pa.set_cpu_count(cores)
        assert threads.equals(alone)

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CrcMismatchError
from spark_segmentlog.log.segment import decode_threads
from spark_segmentlog.log.segment.decode_threads import decode_pieces
from spark_segmentlog.log.segment.scanned_piece import ScannedPiece
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.reading import column

VALUE_BYTES = 100_000


@pytest.fixture
def _three_cores() -> Iterator[None]:
    cores = pa.cpu_count()
    pa.set_cpu_count(3)
    yield
    pa.set_cpu_count(cores)


def large_log(path: Path, *, bad: int | None = None, count: int = 40, codec: str = "zstd") -> Path:
    """Two segments of batches of 100 kB each, offsets 0 to `count`."""
    batches = [
        v2_batch(
            [RecordSpec(value=random.Random(offset).randbytes(VALUE_BYTES))],
            base_offset=offset,
            codec=codec,
            crc=1 if offset == bad else None,
        )
        for offset in range(count)
    ]
    LogBuilder(path).partition("t", 0, [batches[: count // 2], batches[count // 2 :]])
    return path


class Others:
    """Threads of readers that other tests of this process have left to the garbage collector."""

    threads: ClassVar[set[threading.Thread]] = set()


@pytest.fixture(autouse=True)
def _others() -> None:
    Others.threads = set(threading.enumerate())


def threads_of_reads() -> list[str]:
    ours = ("segmentlog-read_", "segmentlog-decode_")
    begun = set(threading.enumerate()) - Others.threads
    return [thread.name for thread in begun if thread.name.startswith(ours)]


def open_logs(path: Path) -> list[str]:
    return [
        open_file.path
        for open_file in psutil.Process().open_files()
        if open_file.path.startswith(str(path))
    ]


@pytest.mark.usefixtures("_three_cores")
def test_threads_give_the_rows_in_order(tmp_path: Path) -> None:
    log = large_log(tmp_path)
    alone = read_arrow(log, use_threads=False).read_all()
    assert read_arrow(log).read_all().equals(alone)
    assert alone["offset"].to_pylist() == list(range(40))


@pytest.mark.usefixtures("_three_cores")
def test_a_reader_that_is_given_up_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    log = large_log(tmp_path)
    reader = read_arrow(log)
    # The first piece is a small one, which the caller decodes.
    assert reader.read_next_batch().num_rows + reader.read_next_batch().num_rows < 40
    assert any(name.startswith("segmentlog-decode") for name in threads_of_reads())
    assert open_logs(log)
    del reader
    gc.collect()
    assert threads_of_reads() == []
    assert open_logs(log) == []


@pytest.mark.usefixtures("_three_cores")
def test_a_reader_that_is_used_up_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    log = large_log(tmp_path)
    reader = read_arrow(log)
    assert sum(arrow_batch.num_rows for arrow_batch in reader) == 40
    assert threads_of_reads() == []
    assert open_logs(log) == []


@pytest.mark.usefixtures("_three_cores")
@pytest.mark.parametrize("bad", [0, 13, 20, 39])
def test_an_error_comes_after_the_rows_of_pieces_before_it(tmp_path: Path, bad: int) -> None:
    log = large_log(tmp_path, bad=bad)
    seen: list[int] = []
    with pytest.raises(CrcMismatchError) as in_threads:
        seen.extend(row for batch in read_arrow(log) for row in batch["offset"].to_pylist())
    with pytest.raises(CrcMismatchError) as alone:
        read_arrow(log, use_threads=False).read_all()
    assert str(in_threads.value) == str(alone.value)
    assert f"offset {bad}" in str(alone.value)
    assert seen == list(range(len(seen)))
    assert len(seen) <= bad
    assert threads_of_reads() == []
    assert open_logs(log) == []


@pytest.mark.usefixtures("_three_cores")
def test_a_small_log_and_a_caller_that_wants_none_start_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a thread")

    small, large = large_log(tmp_path / "small", count=2), large_log(tmp_path / "large")
    quick = [large_log(tmp_path / codec, codec=codec) for codec in ("none", "snappy", "lz4")]
    monkeypatch.setattr(decode_threads, "ThreadPoolExecutor", refuse)
    assert [read_arrow(log).read_all().num_rows for log in quick] == [40, 40, 40]
    assert read_arrow(small).read_all().num_rows == 2
    assert read_arrow(large, use_threads=False).read_all().num_rows == 40
    assert read_arrow(large, starting_offsets={"t": {"0": 39}}).read_all().num_rows == 1
    assert read_arrow(large, mode="DROPMALFORMED").read_all().num_rows == 40


class Pieces:
    """Made-up pieces of some Arrow batches each, and how far they were decoded."""

    def __init__(self, batches_counts: list[int], *, is_apart: bool = True) -> None:
        self.decoded = [0] * len(batches_counts)
        self.given = 0
        self.closed: list[int] = []
        self._counts = batches_counts
        self._is_apart = is_apart

    def __iter__(self) -> Iterator[ScannedPiece]:
        return self.pieces()

    def pieces(self) -> Generator[ScannedPiece]:
        for number in range(len(self._counts)):
            held = ExitStack()
            held.callback(self.closed.append, number)
            self.given += 1
            yield ScannedPiece(partial(self._decode, number), held if self._is_apart else None)

    def _decode(self, number: int) -> Iterator[pa.RecordBatch]:
        for row in range(self._counts[number]):
            self.decoded[number] += 1
            yield pa.record_batch({"n": pa.array([number * 100 + row])})


def test_a_piece_that_grows_is_decoded_as_its_rows_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode_threads, "MAX_WAITING_BYTES", 3 * 8)
    made = Pieces([50] * 10)
    rows = decode_pieces(made.pieces(), 2)
    assert next(rows)["n"].to_pylist() == [0]
    assert made.decoded[0] <= 6
    assert max(made.decoded[1:]) <= 3
    assert made.given <= 2 + decode_threads.PIECES_AHEAD
    expected = [100 * number + row for number in range(10) for row in range(50)]
    assert [0, *column(rows, "n")] == expected
    assert sorted(made.closed) == list(range(10))


def test_pieces_that_nobody_decodes_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_threads, "MAX_WAITING_BYTES", 8)
    made = Pieces([5] * 10)
    rows = decode_pieces(made.pieces(), 2)
    next(rows)
    rows.close()
    assert sorted(made.closed) == list(range(made.given))


def test_pieces_of_both_kinds_keep_their_order() -> None:
    def mixed() -> Generator[ScannedPiece]:
        together, apart = Pieces([2] * 6, is_apart=False), Pieces([2] * 6)
        for kind, pair in enumerate(zip(together, apart, strict=True)):
            yield pair[kind % 2]

    found = column(decode_pieces(mixed(), 2), "n")
    assert found == [100 * number + row for number in range(6) for row in range(2)]

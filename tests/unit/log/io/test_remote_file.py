"""Files over a network: which ranges are asked for, and that they make up the file."""

from __future__ import annotations

import random
import threading

import pytest

from spark_segmentlog.log.io.remote_file import (
    BLOCKS_AHEAD,
    MOST_AHEAD_BYTES,
    PEEK_BYTES,
    READ_AHEAD_BYTES,
    RemoteFile,
)

MIB = 1 << 20


class Source:
    """Bytes that note what is asked of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.ranges: list[tuple[int, int]] = []
        self.sizes = 0
        self.is_closed = False

    def read(self, position: int, length: int) -> bytes:
        assert not self.is_closed
        self.ranges.append((position, length))
        return self.data[position : position + length]

    def size(self) -> int:
        self.sizes += 1
        return len(self.data)

    def close(self) -> None:
        self.is_closed = True


def test_a_scan_reads_each_byte_once_in_blocks() -> None:
    source = Source(random.Random(1).randbytes(5 * READ_AHEAD_BYTES // 2))
    with RemoteFile("x", source) as file:
        file.begin()
        parts = [
            file.read_at(position, 100_000) for position in range(0, len(source.data), 100_000)
        ]
    assert b"".join(parts) == source.data
    starts = range(0, len(source.data), READ_AHEAD_BYTES)
    assert sorted(source.ranges) == [
        (start, min(READ_AHEAD_BYTES, len(source.data) - start)) for start in starts
    ]
    assert source.is_closed


def test_blocks_of_a_file_that_is_read_whole_are_fetched_side_by_side() -> None:
    source = Source(bytes(12 * READ_AHEAD_BYTES))
    together = threading.Barrier(BLOCKS_AHEAD)
    read = source.read

    def read_with_others(position: int, length: int) -> bytes:
        if position < BLOCKS_AHEAD * READ_AHEAD_BYTES:
            together.wait(timeout=60)
        return read(position, length)

    source.read = read_with_others  # type: ignore[method-assign]
    with RemoteFile("x", source) as file:
        file.begin()
        for position in range(0, 12 * READ_AHEAD_BYTES, READ_AHEAD_BYTES):
            assert len(file.read_at(position, READ_AHEAD_BYTES)) == READ_AHEAD_BYTES
    assert len(source.ranges) == 12


def test_a_read_elsewhere_fetches_little_more_than_it_asks_for() -> None:
    source = Source(bytes(64 * MIB))
    with RemoteFile("x", source) as file:
        file.read_at(50 * MIB, 61)
        file.read_at(50 * MIB + 61, 200_000)
        file.read_at(49 * MIB, MIB)
        file.read_at(50 * MIB, 200_000)
    assert source.ranges == [
        (50 * MIB, PEEK_BYTES),
        (50 * MIB + PEEK_BYTES, 4 * PEEK_BYTES),
        (49 * MIB, MIB),
    ]


def test_blocks_grow_where_reads_go_on_from_the_middle() -> None:
    source = Source(bytes(64 * MIB))
    with RemoteFile("x", source) as file:
        for position in range(20 * MIB, 40 * MIB, 50_000):
            file.read_at(position, 50_000)
    sizes = [length for _, length in source.ranges[:4]]
    assert sizes == [PEEK_BYTES, 4 * PEEK_BYTES, 16 * PEEK_BYTES, READ_AHEAD_BYTES]


@pytest.mark.parametrize("begins", [True, False])
def test_who_wants_to_know_is_told_when_all_is_asked_for(begins: bool) -> None:
    size = 40 * MIB
    source = Source(bytes(size))
    told: list[int] = []
    position = 0
    with RemoteFile("x", source) as file:
        file.call_at_end(lambda: told.append(position))
        if begins:
            file.begin()
        for position in range(0, size, MIB):
            file.read_at(position, MIB)
    assert len(told) == 1
    # As early as the blocks ahead reach.
    assert size - MOST_AHEAD_BYTES - 2 * READ_AHEAD_BYTES <= told[0] <= size - MOST_AHEAD_BYTES
    with RemoteFile("x", Source(b"abc")) as small:
        small.begin()
        small.call_at_end(lambda: told.append(-1))
    assert told[1:] == [-1]


def test_a_small_file_is_fetched_once_wherever_it_is_read_first() -> None:
    source = Source(bytes(range(256)) * 100)
    with RemoteFile("x", source) as file:
        assert file.read_at(25_000, 8) == source.data[25_000:25_008]
        assert file.read_at(0, 30_000) == source.data
    assert source.ranges == [(0, 25_600)]


@pytest.mark.parametrize("seed", range(5))
def test_reads_anywhere_give_the_bytes_of_the_file(seed: int) -> None:
    numbers = random.Random(seed)
    source = Source(numbers.randbytes(9 * MIB + 7))
    with RemoteFile("x", source, reads_blocks=seed > 0) as file:
        for _ in range(60):
            position, length = numbers.randrange(10 * MIB), numbers.randrange(2 * MIB)
            assert file.read_at(position, length) == source.data[position : position + length]


def test_a_size_that_was_listed_is_not_asked_for() -> None:
    source = Source(bytes(1000))
    with RemoteFile("x", source, size=1000) as file:
        assert (file.size(), len(file.read_at(0, 5000))) == (1000, 1000)
    assert source.sizes == 0


def test_a_file_that_is_shorter_than_it_was_listed_is_another_one() -> None:
    with RemoteFile("x", Source(bytes(900)), size=1000) as file, pytest.raises(FileNotFoundError):
        file.read_at(0, 1000)

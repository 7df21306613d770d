"""A file read in pieces, into memory that is used again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.io.reading import LOCAL, LogFile
from spark_segmentlog.log.segment.pieces import Piece, PieceReader, ReadBuffer
from spark_segmentlog.record.read.header_table import scan_headers
from spark_segmentlog.testing.builder import RecordSpec, v2_batch

DATA = bytes(range(256)) * 40


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return LOCAL.open_input(str(path))


def test_pieces_grow_up_to_the_buffer_and_beyond_for_one_batch(file: LogFile) -> None:
    reader = PieceReader(file, 0, ReadBuffer(1000), 100)
    sizes = []
    position = 0
    for needed in (0, 0, 0, 0, 3000, 0):
        start, end, is_last = reader.read(position, needed)
        assert not is_last
        assert bytes(reader.buffer[start:end]) == DATA[position : position + end - start]
        sizes.append(end - start)
        position += end - start
    assert sizes == [100, 400, 1000, 1000, 3000, 3000]


def test_the_end_of_the_file_is_told(file: LogFile) -> None:
    reader = PieceReader(file, len(DATA) - 10, None, 100)
    assert reader.read(len(DATA) - 10, 0) == (0, 10, True)


def test_what_is_kept_is_not_read_again(file: LogFile) -> None:
    reader = PieceReader(file, 0, ReadBuffer(1000), 100)
    reader.read(0, 0)
    reader.keep(100)
    assert reader.read(40, 0) == (40, 100, False)
    reader.forget()
    start, _, _ = reader.read(40, 0)
    assert (start, reader.file_position) == (0, 40)


def test_memory_that_was_exchanged_is_read_into(file: LogFile) -> None:
    first, second = ReadBuffer(100), ReadBuffer(100)
    reader = PieceReader(file, 0, first, 100)
    assert reader.exchange(second) is first
    reader.read(0, 0)
    assert reader.buffer is second.array


def test_a_buffer_grows_and_never_shrinks() -> None:
    buffer = ReadBuffer(10)
    buffer.reserve(20)
    buffer.reserve(5)
    assert len(buffer.array) == 20


def test_a_batch_of_a_piece_is_parsed_to_say_what_is_wrong_with_it() -> None:
    good = v2_batch([RecordSpec(value=b"v")])
    bad = bytearray(v2_batch([RecordSpec(value=b"v")], base_offset=1))
    bad[62] ^= 0xFF
    buffer = np.frombuffer(good + bytes(bad), np.uint8).copy()
    table = scan_headers(buffer, 0, len(buffer), file_position=500)
    piece = Piece(table, buffer, 500)
    piece.parse_batch(0, "here")
    with pytest.raises(CorruptRecordError, match=f"here, position {500 + len(good)}"):
        piece.parse_batch(1, "here")

"""Markers, as they are read of a piece of the log."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.errors import CrcMismatchError, InvalidRecordError
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.transactions.markers import ABORT, COMMIT, Marker, read_markers
from spark_segmentlog.record.read.header_table import scan_headers
from spark_segmentlog.testing.builder import control_batch, v2_batch


def piece_of(*batches: bytes) -> Piece:
    buffer = np.frombuffer(b"".join(batches), np.uint8)
    return Piece(scan_headers(buffer, 0, len(buffer), file_position=0), buffer, 0)


def markers_of(*batches: bytes) -> dict[int, Marker]:
    return read_markers(piece_of(*batches), np.arange(len(batches)), source="a.log")


def test_markers_are_read_by_row_with_the_coordinators_epoch() -> None:
    found = markers_of(
        control_batch(ABORT, base_offset=0, coordinator_epoch=4),
        control_batch(COMMIT, base_offset=1, coordinator_epoch=5),
    )
    assert found == {0: Marker(ABORT, 4), 1: Marker(COMMIT, 5)}
    assert all(marker.ends_transaction for marker in found.values())


def test_a_marker_that_was_emptied_is_left_out() -> None:
    emptied = v2_batch(last_offset_delta=0, control=True, transactional=True)
    assert markers_of(emptied, control_batch(COMMIT, base_offset=1)) == {1: Marker(COMMIT, 0)}


def test_a_control_record_of_another_kind_ends_no_transaction() -> None:
    (found,) = markers_of(control_batch(3, base_offset=0)).values()
    assert found.type_id == 3
    assert not found.ends_transaction


def test_a_wrong_checksum_and_a_record_that_is_no_control_record_are_errors() -> None:
    batch = bytearray(control_batch(COMMIT, base_offset=7))
    batch[17] ^= 1
    with pytest.raises(CrcMismatchError, match="position 0"):
        markers_of(bytes(batch))
    with pytest.raises(InvalidRecordError, match="base offset 7"):
        markers_of(v2_batch([b"\x0c\x00\x00\x00\x01\x01\x00"], base_offset=7, control=True))

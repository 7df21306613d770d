"""The control batches that end transactions, read by their first record."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from spark_segmentlog.errors import InvalidRecordError
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.record.kernels import producers as kernels
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.control import parse_control_record
from spark_segmentlog.record.read.header_table import check_crcs, check_inside
from spark_segmentlog.record.types import Int64s

ABORT: Final = kernels.ABORT
COMMIT: Final = kernels.COMMIT


class Marker(NamedTuple):
    """What a control batch says; the coordinator's epoch is -1 where it ends no transaction."""

    type_id: int
    coordinator_epoch: int

    @property
    def ends_transaction(self) -> bool:
        """Whether it is an ABORT or a COMMIT marker."""
        return self.type_id in (ABORT, COMMIT)


def read_markers(piece: Piece, rows: Int64s, *, source: str) -> dict[int, Marker]:
    """Read the control batches at some rows, by their first record.

    Returns
    -------
    dict of int to Marker
        By row; a batch without records is left out.

    Raises
    ------
    CorruptRecordError
        A wrong checksum, or a record that is no control record.
    """
    rows = rows[piece.table.records_count[rows] != 0]
    check_inside(piece.buffer, piece.table.entries, rows, piece.file_position)
    is_good = check_crcs(piece.buffer, piece.table.select(rows), file_position=piece.file_position)
    types, epochs = np.full(len(rows), kernels.NOT_READ), np.empty(len(rows), np.int64)
    kernels.read_usual_markers(
        piece.buffer, piece.table.entries, rows, piece.file_position, types, epochs
    )
    found = {}
    for row, marker_type, epoch, good in zip(
        rows.tolist(), types.tolist(), epochs.tolist(), is_good.tolist(), strict=True
    ):
        is_read = good and marker_type != kernels.NOT_READ
        found[row] = Marker(marker_type, epoch) if is_read else read_marker(piece, row, source)
    return found


def read_marker(piece: Piece, row: int, source: str, *, check_crcs: bool = True) -> Marker:
    """Read the control batch at a row by itself; what it raises is that of `read_markers`."""
    position = int(piece.table.position[row])
    start = position - piece.file_position
    data = piece.buffer.data[start : start + int(piece.table.size_bytes[row])]
    record = next(
        iterate_records(data, source=source, file_position=position, check_crcs=check_crcs)
    )
    try:
        control = parse_control_record(record.key, record.value)
    except ValueError as error:
        raise InvalidRecordError(
            str(error), source=source, position=position, base_offset=record.offset
        ) from error
    return Marker(control.type_id, control.coordinator_epoch)

"""Producers by compiled loops; `ProducerTracker` holds the whole state machine to a plain one."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.header_fields import HEADER_FIELDS
from spark_segmentlog.record.kernels.headers import scan_entries
from spark_segmentlog.record.kernels.producers import (
    FIRST_OPEN_OFFSET,
    ID,
    IS_USED,
    NOT_READ,
    PRODUCER_FIELDS,
    keep_open,
    put_producers,
    read_usual_markers,
)
from spark_segmentlog.testing.builder import ABORT, COMMIT, RecordSpec, control_batch, v2_batch
from tests.support.decoding import as_array


def test_usual_markers_are_read_and_others_left_to_the_plain_reader() -> None:
    batches = [
        control_batch(COMMIT, base_offset=0, coordinator_epoch=7, producer_id=1, producer_epoch=0),
        control_batch(ABORT, base_offset=1, coordinator_epoch=8, producer_id=1, producer_epoch=0),
        v2_batch([RecordSpec(value=b"v")], base_offset=2),
        v2_batch([RecordSpec(key=b"\0\0\0\x09", value=b"")], base_offset=3, control=True),
    ]
    data = as_array(b"".join(batches))
    table = np.zeros((4, HEADER_FIELDS), np.int64)
    scan_entries(data, 0, len(data), 500, 0, table)
    types, epochs = np.full(4, 99), np.full(4, 99)
    read_usual_markers(data, table, np.arange(4), 500, types, epochs)
    assert types.tolist() == [COMMIT, ABORT, NOT_READ, NOT_READ]
    assert epochs[:2].tolist() == [7, 8]


def test_transactions_that_are_open_move_to_the_front_in_their_order() -> None:
    ids = [1, 1 << 32, 2 << 32, 2**63 - 1]
    rows = np.zeros((4, PRODUCER_FIELDS), np.int64)
    rows[:, IS_USED] = 1
    rows[:, ID] = ids
    rows[:, FIRST_OPEN_OFFSET] = [10, -1, 30, 40]
    producers = np.zeros((8, PRODUCER_FIELDS), np.int64)
    put_producers(rows, producers)
    assert sorted(producers[producers[:, IS_USED] != 0, ID].tolist()) == ids
    begun = np.array([[ids[0], 5], [ids[1], 8], [ids[0], 10], [ids[2], 30], [ids[3], 40]])
    assert keep_open(producers, begun, 1, 5) == 3
    assert begun[:3].tolist() == [[ids[0], 10], [ids[2], 30], [ids[3], 40]]

"""Which records are ordinary; that they are written as others are is seen by all of `decoding`."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.record.header_fields import POSITION, SIZE_BYTES
from spark_segmentlog.record.jit import kernel
from spark_segmentlog.record.kernels.ordinary import put_ordinary_records
from spark_segmentlog.record.kernels.output import (
    RECORD,
    ROW,
    PlainTuple,
    Settings,
    named_outputs,
)
from spark_segmentlog.record.layout import RECORD_BATCH_OVERHEAD
from spark_segmentlog.record.read.arrow_output import ArrowOutput
from spark_segmentlog.record.types import Bytes, Int64s
from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.decoding import ALL_COLUMNS, as_array, scan

BYTES_AFTER = b"\xff" * 200
EVERYTHING = Settings(0, 2**62, -(2**62), 2**62, 100, 1 << 20, True, False)
ORDINARY = [
    RecordSpec(key=b"key", value=b"value"),
    RecordSpec(key=None, value=b"v" * 63),
    RecordSpec(key=b"k" * 64, value=None),
    RecordSpec(key=b"k" * 17, value=b"v" * 129, timestamp_delta=-1_000_000),
    RecordSpec(key=b"", value=b"", timestamp_delta=1_000_000),
    RecordSpec(key=b"k" * 10_000, value=b"v" * 20_000),
]
HEADERS = RecordSpec(value=b"v", headers=[("h", b"x")])
FAR_TIMESTAMP = RecordSpec(value=b"v", timestamp_delta=1 << 30)


@kernel
def put_records(
    body: Bytes,
    table: Int64s,
    rows: Int64s,
    spans: Int64s,
    settings: PlainTuple,
    state: Int64s,
    outputs: PlainTuple,
) -> None:
    put_ordinary_records(
        body, 0, body, table, rows, spans, Settings(*settings), state, named_outputs(outputs)
    )


def taken(
    *batches: list[RecordSpec],
    bytes_after: bytes = BYTES_AFTER,
    settings: Settings = EVERYTHING,
    damaged: int | None = None,
) -> tuple[int, int]:
    """Put the records of batches into the buffers of an Arrow batch; the first that was not taken.

    It is told by the numbers of its batch and of the record in it.
    """
    data = b"".join(v2_batch(records) for records in batches)
    array, table = as_array(data + bytes_after), scan(data).entries
    if damaged is not None:
        array[table[damaged, POSITION] + RECORD_BATCH_OVERHEAD] ^= 1
    ends = table[:, POSITION] + table[:, SIZE_BYTES]
    spans = np.column_stack((table[:, POSITION] + RECORD_BATCH_OVERHEAD, ends))
    output = ArrowOutput(ALL_COLUMNS, topic="t", partition=0, max_rows=100, max_bytes=1 << 20)
    rows = np.arange(len(batches))
    put_records(array, table, rows, spans, tuple(settings), output.state, output.outputs)
    return int(output.state[ROW]), int(output.state[RECORD])


def test_all_ordinary_records_are_taken() -> None:
    assert taken(ORDINARY, ORDINARY[:1], ORDINARY) == (3, 0)


@pytest.mark.parametrize("other", [HEADERS, FAR_TIMESTAMP])
def test_records_are_taken_up_to_the_first_other_one(other: RecordSpec) -> None:
    assert taken(ORDINARY, [*ORDINARY, other, *ORDINARY]) == (1, len(ORDINARY))


def test_a_batch_whose_checksum_is_wrong_is_left_to_the_general_loop() -> None:
    assert taken(ORDINARY, ORDINARY, damaged=1) == (1, 0)
    unchecked = EVERYTHING._replace(check_crcs=False)
    assert taken(ORDINARY, ORDINARY, damaged=1, settings=unchecked) == (1, 0)


def test_a_record_with_nothing_after_it_is_left_to_the_general_loop() -> None:
    assert taken(ORDINARY[:1], bytes_after=b"") == (0, 0)


@pytest.mark.parametrize(
    ("settings", "count"),
    [(EVERYTHING._replace(max_rows=1), 1), (EVERYTHING._replace(max_bytes=20), 2)],
)
def test_records_are_taken_as_long_as_they_have_room(settings: Settings, count: int) -> None:
    assert taken([ORDINARY[0]] * 3, settings=settings) == (0, count)
    assert taken(*[[ORDINARY[0]]] * 3, settings=settings) == (count, 0)


def test_what_the_filter_leaves_out_is_taken_and_not_written() -> None:
    assert taken(ORDINARY[:3], settings=EVERYTHING._replace(start_offset=2, max_rows=1)) == (1, 0)

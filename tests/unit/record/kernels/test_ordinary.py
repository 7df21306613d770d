"""Which records are ordinary; that they are written as others are is seen by all of `decoding`."""

from __future__ import annotations

import pytest

from spark_segmentlog.record.jit import kernel
from spark_segmentlog.record.kernels.ordinary import put_ordinary_records
from spark_segmentlog.record.kernels.output import (
    BODY_POSITION,
    COUNT,
    RECORD,
    PlainTuple,
    Settings,
    named_outputs,
)
from spark_segmentlog.record.read.arrow_output import ArrowOutput
from spark_segmentlog.record.types import Bytes, Int64s
from spark_segmentlog.testing.builder import RecordSpec, v2_batch, v2_record
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
    body: Bytes, end: int, header: Int64s, settings: PlainTuple, state: Int64s, outputs: PlainTuple
) -> None:
    put_ordinary_records(body, end, header, Settings(*settings), state, named_outputs(outputs))


def taken(
    records: list[RecordSpec], *, bytes_after: bytes = BYTES_AFTER, settings: Settings = EVERYTHING
) -> int:
    """Put the records of a batch into the buffers of an Arrow batch; how many were taken."""
    body = b"".join(v2_record(record, offset_delta=delta) for delta, record in enumerate(records))
    header = scan(v2_batch(records)).entries[0]
    output = ArrowOutput(ALL_COLUMNS, topic="t", partition=0, max_rows=100, max_bytes=1 << 20)
    data = as_array(body + bytes_after)
    put_records(data, len(body), header, tuple(settings), output.state, output.outputs)
    assert output.state[BODY_POSITION] <= len(body)
    assert output.state[COUNT] <= output.state[RECORD]
    return int(output.state[RECORD])


def test_all_ordinary_records_are_taken() -> None:
    assert taken(ORDINARY) == len(ORDINARY)


@pytest.mark.parametrize("other", [HEADERS, FAR_TIMESTAMP])
def test_records_are_taken_up_to_the_first_other_one(other: RecordSpec) -> None:
    assert taken([*ORDINARY, other, *ORDINARY]) == len(ORDINARY)


def test_a_record_with_nothing_after_it_is_left_to_the_general_loop() -> None:
    assert taken(ORDINARY[:1], bytes_after=b"") == 0


@pytest.mark.parametrize(
    ("settings", "count"),
    [(EVERYTHING._replace(max_rows=1), 1), (EVERYTHING._replace(max_bytes=20), 2)],
)
def test_records_are_taken_as_long_as_they_have_room(settings: Settings, count: int) -> None:
    assert taken([ORDINARY[0]] * 3, settings=settings) == count


def test_what_the_filter_leaves_out_is_taken_and_not_written() -> None:
    assert taken(ORDINARY[:3], settings=EVERYTHING._replace(start_offset=2)) == 3

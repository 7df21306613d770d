"""What kernels write into."""

from __future__ import annotations

from spark_segmentlog.record import header_fields
from spark_segmentlog.record.kernels import decode, output


def test_arrays_of_fields_have_room_for_the_last_one() -> None:
    assert output.STATE_FIELDS == output.BAD_TIMESTAMP_MS + 1
    assert decode.MESSAGE_FIELDS == decode.MESSAGE_TIMESTAMP_TYPE + 1
    assert header_fields.HEADER_FIELDS == header_fields.CRC + 1

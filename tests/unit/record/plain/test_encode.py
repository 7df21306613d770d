"""Records of format 2 written in plain Python."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.record.layout import TimestampType
from spark_segmentlog.record.plain.batch import Record, RecordHeader
from spark_segmentlog.record.plain.encode import encode_record, encode_varint
from spark_segmentlog.record.plain.varint import read_varlong
from spark_segmentlog.testing.builder import RecordSpec, v2_record


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varint_is_read_back(value: int) -> None:
    data = encode_varint(value)
    assert read_varlong(data, 0, len(data)) == (value, len(data))


def test_a_record_is_what_the_builder_makes_of_it() -> None:
    spec = RecordSpec(key=None, value=b"", headers=[("a", None), ("b", b"x")])
    record = Record(
        offset=3,
        timestamp_ms=107,
        timestamp_type=TimestampType.CREATE_TIME,
        key=None,
        value=b"",
        headers=(RecordHeader("a", None), RecordHeader("b", b"x")),
    )
    data = encode_record(record, offset_delta=3, base_timestamp=100)
    assert data == v2_record(spec, offset_delta=3, timestamp_delta=7)

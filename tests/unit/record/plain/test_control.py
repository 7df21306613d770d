"""Control records: what their keys say, and that they are never rows."""

from __future__ import annotations

import struct

import pytest

from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.control import ControlRecordType, parse_control_record
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    RecordSpec,
    control_batch,
    legacy_message,
    v2_batch,
)
from tests.support.decoding import read_offsets, scan


@pytest.mark.parametrize(
    ("kind", "expected"), [(ABORT, ControlRecordType.ABORT), (COMMIT, ControlRecordType.COMMIT)]
)
def test_end_marker_names_its_type_and_coordinator_epoch(
    kind: int, expected: ControlRecordType
) -> None:
    data = control_batch(kind, base_offset=5, producer_id=7, coordinator_epoch=11)
    (record,) = iterate_records(data)
    marker = parse_control_record(record.key, record.value)
    assert marker.type is expected
    assert marker.ends_transaction
    assert marker.coordinator_epoch == 11


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 7, 99, -1])
def test_other_control_records_are_no_error_and_end_no_transaction(kind: int) -> None:
    (record,) = iterate_records(control_batch(kind, base_offset=0))
    marker = parse_control_record(record.key, record.value)
    assert marker.type_id == kind
    assert not marker.ends_transaction
    assert marker.coordinator_epoch == -1
    known = marker.type is not ControlRecordType.UNKNOWN
    assert known == (kind in range(2, 7))


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_short_control_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(ValueError, match="at least 4 bytes"):
        parse_control_record(key, b"")


def test_marker_with_a_short_value_has_no_epoch() -> None:
    assert parse_control_record(struct.pack(">hh", 0, COMMIT), None).coordinator_epoch == -1


def test_control_batches_occupy_offsets_and_are_no_rows() -> None:
    data = (
        v2_batch([RecordSpec(value=b"a")], base_offset=0, transactional=True, producer_id=1)
        + control_batch(COMMIT, base_offset=1, producer_id=1)
        + v2_batch([RecordSpec(value=b"b")], base_offset=2)
    )
    assert read_offsets(data) == [0, 2]
    table = scan(data)
    assert table.is_control.tolist() == [False, True, False]
    assert table.is_transactional.tolist() == [True, True, False]


def test_bits_of_format_2_mean_nothing_in_older_ones() -> None:
    data = legacy_message(1, offset=0, value=b"v", attributes=0x70)
    table = scan(data)
    assert not table.is_control[0]
    assert not table.is_transactional[0]
    assert not table.has_delete_horizon[0]
    assert read_offsets(data) == [0]

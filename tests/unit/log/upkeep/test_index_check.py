"""Indexes compared with the batches they name."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.testing.builder import SegmentSpec
from tests.support.reading import offsets, open_one, timed
from tests.support.verifying import build, found, spec

SEGMENT = "00000000000000000000"


def test_a_time_index_of_another_segment_makes_nothing_lost(tmp_path: Path) -> None:
    lying = struct.pack(">qiqi", 77, 1, 99, 7)
    closed = SegmentSpec([timed(0, 1, 2)], base_offset=0, time_index=lying)
    build(tmp_path, closed, SegmentSpec([timed(9, 3)], base_offset=9), recovery_point=10)
    assert offsets(open_one(tmp_path)) == [0, 1, 9]
    (one,) = found(tmp_path)
    assert one.kind is FindingKind.TIME_INDEX


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_with_half_an_entry(tmp_path: Path, suffix: str) -> None:
    directory = build(tmp_path, spec([timed(0, 1), timed(1, 2)]), recovery_point=2)
    path = directory / f"{SEGMENT}{suffix}"
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    (one,) = found(tmp_path)
    assert (one.path, one.detail) == (str(path), "3 bytes after the last whole entry")

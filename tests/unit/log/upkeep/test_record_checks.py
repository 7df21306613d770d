"""The records of a walk's batches, checked beside the walk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import WalkOptions
from spark_segmentlog.log.upkeep import record_checks
from spark_segmentlog.log.upkeep.record_checks import RecordChecks
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.read.record_check import RecordCheck
from spark_segmentlog.record.types import Bytes
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    legacy_message,
    legacy_wrapper,
    v2_batch,
)
from tests.support.reading import open_one

BATCHES = 30
OPTIONS = WalkOptions(skip_corrupt=True, first_read_bytes=1024)


def records_of(number: int) -> list[RecordSpec | bytes]:
    return [RecordSpec(value=bytes([number]) * 100) for _ in range(3)]


def good(number: int, codec: str = "none") -> bytes:
    return v2_batch(records_of(number), base_offset=3 * number, codec=codec)


def bad(number: int, codec: str = "none") -> bytes:
    """Make a batch with a record that ends too early, under a checksum that fits."""
    records = [*records_of(number)[:2], b"\x02\x00"]
    return v2_batch(records, base_offset=3 * number, codec=codec, last_offset_delta=2)


def are_good(folder: Path, batches: Sequence[bytes]) -> bool:
    LogBuilder(folder).partition("t", 0, [SegmentSpec(batches)])
    segment = open_one(folder).segments[0]
    with segment.open_log() as file:
        walk = HeaderWalk(segment, file, OPTIONS)
        with RecordChecks(walk) as checks:
            for table in walk:
                checks.check(table)
            return checks.are_good()


@pytest.fixture(params=["threads", "here", "huge"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have pieces checked by threads, or as the small ones that they are, or as huge ones."""
    if request.param == "threads":
        monkeypatch.setattr(record_checks, "FIRST_READ_BYTES", 1)
    elif request.param == "huge":
        monkeypatch.setattr(record_checks, "READ_BUFFER_BYTES", 1)
    return str(request.param)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.usefixtures("way")
def test_one_bad_record_anywhere_is_found(tmp_path: Path, codec: str) -> None:
    batches = [good(number, codec) for number in range(BATCHES)]
    assert are_good(tmp_path / "good", batches)
    for number in (0, 13, BATCHES - 1):
        changed = [*batches[:number], bad(number, codec), *batches[number + 1 :]]
        assert not are_good(tmp_path / str(number), changed)


@pytest.mark.usefixtures("way")
def test_messages_in_wrappers_are_checked(tmp_path: Path) -> None:
    inner = [legacy_message(1, offset=base, value=b"v" * 90) for base in range(BATCHES)]
    wrappers = [
        legacy_wrapper(1, message, offset=base, codec="gzip") for base, message in enumerate(inner)
    ]
    assert are_good(tmp_path / "good", wrappers)
    wrappers[13] = legacy_wrapper(1, inner[13][:-1] + b"x", offset=13, codec="gzip")
    assert not are_good(tmp_path / "bad", wrappers)


def test_large_pieces_are_checked_by_threads_in_memory_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_checks, "FIRST_READ_BYTES", 1)
    checked: list[tuple[str, int]] = []

    class NotingCheck(RecordCheck):
        def is_good(self, buffer: Bytes, table: HeaderTable, **options: Any) -> bool:
            checked.append((threading.current_thread().name, id(buffer)))
            return super().is_good(buffer, table, **options)

    monkeypatch.setattr(record_checks, "RecordCheck", NotingCheck)
    assert are_good(tmp_path, [good(number) for number in range(BATCHES)])
    assert all(name.startswith("segmentlog-check") for name, _ in checked)
    assert len({buffer for _, buffer in checked}) > 1

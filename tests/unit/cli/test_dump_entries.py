"""The walk of a dump over one log: bad bytes, the end, the largest timestamp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.testing.builder import RecordSpec, SegmentSpec, v2_batch
from tests.support.dumping import one_partition
from tests.support.running import NAME, batches, flip, run


def test_an_emptied_batch_has_no_largest_timestamp(tmp_path: Path) -> None:
    emptied = v2_batch([], base_offset=0, last_offset_delta=3, max_timestamp=99)
    one_partition(tmp_path, [emptied])
    assert "Largest timestamp" not in run("dump", tmp_path).stdout


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_largest_timestamp_is_told_with_its_own_record(tmp_path: Path, codec: str) -> None:
    first = v2_batch([RecordSpec(value=b"x", timestamp_ms=ms) for ms in (5, 9, 7)], codec=codec)
    second = v2_batch([RecordSpec(value=b"x", timestamp_ms=9)], base_offset=3)
    directory = one_partition(tmp_path, [first, second])
    assert run("dump", directory).lines[-1] == "Largest timestamp: 9 at offset 1"
    assert run("dump", directory, "--offsets", "3:").lines[-1] == "Largest timestamp: 9 at offset 3"


def test_bad_bytes_are_named_and_stepped_over(tmp_path: Path) -> None:
    data = batches(5)
    size = len(data[0])
    directory = one_partition(tmp_path, data)
    log = directory / f"{NAME}.log"
    flip(log, size + 16)
    flip(log, 3 * size + 100)
    ran = run("dump", directory, "--format", "json")
    assert ran.exit_code == 1
    shown = [
        (entry["type"], entry.get("position"), entry.get("isValid"), entry.get("lengthBytes"))
        for entry in ran.objects
    ]
    assert shown == [
        ("segment", None, None, None),
        ("batch", 0, True, None),
        ("corruptBytes", size, None, size),
        ("batch", 2 * size, True, None),
        ("batch", 3 * size, False, None),
        ("batch", 4 * size, True, None),
        ("largestTimestamp", None, None, None),
    ]
    text = run("dump", directory).lines
    assert text[3].startswith(
        f"Found {size} invalid bytes at position {size} of {NAME}.log: magic "
    )
    assert [line.rpartition(" ")[2] for line in text if "isvalid" in line] == [
        "true",
        "true",
        "false",
        "true",
    ]


def test_records_that_cannot_be_read_are_told_and_the_next_batch_is_read(tmp_path: Path) -> None:
    bad = v2_batch([b"\x7f\x00"])
    good = v2_batch([RecordSpec(value=b"x", timestamp_ms=3)], base_offset=1)
    directory = one_partition(tmp_path, [bad, good])
    ran = run("dump", directory, "--records")
    assert ran.exit_code == 1
    assert ran.lines[3] == (
        f"Found {len(bad)} invalid bytes at position 0 of {NAME}.log: "
        "record 0: length -64, 1 bytes are there"
    )
    assert ran.lines[5].endswith("payload: x")
    assert run("dump", directory).exit_code == 0


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"tail": bytes(4096)}, "Found 4096 zero bytes at the end of {}.log"),
        ({"cut_bytes": 100}, "Found {rest} invalid bytes at the end of {}.log"),
    ],
)
def test_the_end_of_a_log_may_be_torn_or_zeros(
    tmp_path: Path, spec: dict[str, Any], line: str
) -> None:
    data = batches(3)
    directory = one_partition(tmp_path, SegmentSpec(data, **spec))
    ran = run("dump", directory)
    assert ran.exit_code == 0
    assert ran.lines[-2] == line.format(NAME, rest=len(data[0]) - 100)

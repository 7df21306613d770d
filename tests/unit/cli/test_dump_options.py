"""Which batches and records are dumped: by offsets, times, keys and producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.dumping import START_MS, of_type, offsets_of, one_partition, timed
from tests.support.running import batches, objects, run


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ("5", [5]),
        ("3:6", [3, 4, 5]),
        (":2", [0, 1]),
        ("38:", [38, 39]),
        ("7:7", []),
        ("99:", []),
    ],
)
def test_offsets_choose_batches_and_records(
    tmp_path: Path, offsets: str, expected: list[int]
) -> None:
    directory = one_partition(
        tmp_path, batches(20), [v2_batch([RecordSpec(value=b"x")] * 20, base_offset=20)]
    )
    entries = objects("dump", directory, "--records", "--offsets", offsets)
    assert [entry["offset"] for entry in of_type(entries, "record")] == expected
    touched = sorted({min(offset, 20) for offset in expected})
    assert [entry["baseOffset"] for entry in of_type(entries, "batch")] == touched


@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        ("1970-01-02T08:03:1970-01-02T08:05", [3, 4]),
        ("1970-01-02T09:03+01:00:1970-01-02T08:05Z", [3, 4]),
        (f"{START_MS + 180_000}:{START_MS + 180_001}", [3]),
        ("1970-01-02T08:17:59.9999:", [18, 19]),
        (":1970-01-02T08:02", [0, 1]),
        ("1970-01-03:", []),
        (":", list(range(20))),
    ],
)
def test_records_of_a_time(tmp_path: Path, timestamps: str, expected: list[int]) -> None:
    directory = one_partition(tmp_path, timed(5), timed(10)[5:])
    assert offsets_of(directory, "--records", "--timestamps", timestamps) == expected
    entries = objects("dump", directory, "--records", "--timestamps", timestamps)
    bases = sorted({offset - offset % 2 for offset in expected})
    assert [entry["baseOffset"] for entry in of_type(entries, "batch")] == bases


def test_batches_of_a_time_are_those_whose_headers_reach_it(tmp_path: Path) -> None:
    append = v2_batch([RecordSpec(timestamp_ms=9)] * 2, base_offset=8, log_append_time=True)
    directory = one_partition(tmp_path, [*timed(4), append])
    found = objects("dump", directory, "--timestamps", "1970-01-02T08:03:1970-01-02T08:05")
    assert [entry["baseOffset"] for entry in of_type(found, "batch")] == [2, 4]
    found = objects("dump", directory, "--timestamps", "9:10")
    assert [entry["baseOffset"] for entry in of_type(found, "batch")] == [8]


def test_records_of_a_key(tmp_path: Path) -> None:
    directory = one_partition(tmp_path, timed(4))
    assert offsets_of(directory, "--key", "k1") == [1, 4, 7]
    assert offsets_of(directory, "--key", "6b31", "--bytes", "hex") == [1, 4, 7]
    assert offsets_of(directory, "--key", "azE=", "--bytes", "base64") == [1, 4, 7]
    assert offsets_of(directory, "--key", "") == []
    ran = run("dump", directory, "--key", "xyz", "--bytes", "hex")
    assert ran.exit_code == 2
    assert "'xyz' is not hex" in ran.stderr


def test_batches_of_producers(tmp_path: Path) -> None:
    directory = one_partition(tmp_path, timed(4))
    assert offsets_of(directory, "--records", "--producer", 2) == [2, 3, 6, 7]
    both = objects("dump", directory, "--producer", 2, "--producer", 0)
    assert len(of_type(both, "batch")) == 4

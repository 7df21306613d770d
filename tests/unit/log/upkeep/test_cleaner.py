"""One pass: the map of keys, and batches larger than memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog.errors import DecompressedSizeError
from spark_segmentlog.log.upkeep import compaction
from spark_segmentlog.log.upkeep.compaction import compact
from spark_segmentlog.record.compact.offset_map import OffsetMap
from tests.support.cleaning import (
    NOW_MS,
    build,
    check_indexes,
    checkpoint,
    kept,
    log_bytes,
    plain_batches,
    temporary_names,
)
from tests.support.compacting import CODECS, CONFIG, active, plan, run
from tests.support.decoding import room_of


def large_batches(codec: str) -> list[bytes]:
    """Batches of which all, some, or no records stay, with tombstones and without a key."""
    rows: list[tuple[bytes | None, bytes | None]] = []
    for at in range(5):
        rows += [(b"same%d" % (number % 7), b"v%d" % at * 40) for number in range(20)]
        rows += [(b"own%d-%d" % (at, number), b"w" * number) for number in range(20)]
    rows += [(b"only%d" % number, b"x" * 30) for number in range(40)]
    rows += [(b"same%d" % (number % 7), b"last") for number in range(40)]
    rows += [(b"own0-%d" % number, None) for number in range(20)] + [(None, b"gone")] * 20
    return plain_batches(rows, batch_size=40, codec=codec)


@pytest.mark.parametrize("max_keys", [1, 2, 5, 12])
def test_a_map_that_is_too_small_takes_more_passes_and_gives_the_same(
    tmp_path: Path, max_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [(b"%d" % (index * 7 % 13), b"%d" % index) for index in range(40)]
    segments = [
        plain_batches(values[at : at + 8], base_offset=at, batch_size=3, codec="lz4")
        for at in range(0, 40, 8)
    ]
    directory = build(tmp_path, [*segments, active(40)])

    class SmallMap(OffsetMap):
        def __init__(self, max_bytes: int, *, expected_records: int) -> None:
            super().__init__(max_bytes, expected_records=expected_records)
            self.max_keys = max_keys

    planned = plan(directory, CONFIG, NOW_MS)
    monkeypatch.setattr(compaction, "OffsetMap", SmallMap)
    (result,) = compact([str(tmp_path)], None, CONFIG, NOW_MS)
    assert (planned.cleaned_up_to, planned.segments_after) == (40, result.segments_after)
    assert planned.records_kept == len(dict(values))
    latest = {key: (index, key, value) for index, (key, value) in enumerate(values)}
    assert kept(directory)[:-1] == sorted(latest.values())
    assert result.passes > 1
    assert checkpoint(directory, "cleaner-offset-checkpoint") == 40


def test_many_keys_in_small_batches_take_a_bounded_map(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    keys = random.integers(0, 3000, 20_000)
    values = [(b"key-%05d" % key, b"%d" % index) for index, key in enumerate(keys.tolist())]
    directory = build(
        tmp_path,
        [
            plain_batches(values[:10_000], batch_size=1),
            plain_batches(values[10_000:], base_offset=10_000, batch_size=100, codec="lz4"),
            active(20_000),
        ],
    )
    result = run(directory, replace(CONFIG, dedupe_buffer_bytes=24 * 2048))
    assert result.passes > 1
    latest = {key: (index, key, value) for index, (key, value) in enumerate(values)}
    assert kept(directory)[:-1] == sorted(latest.values())
    check_indexes(directory)


@pytest.mark.parametrize("room_bytes", [100, 1000])
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_batches_read_in_parts_are_cleaned_as_whole_ones(
    tmp_path: Path, codec: str, room_bytes: int
) -> None:
    segments = [large_batches(codec), active(320)]
    whole, in_parts = build(tmp_path / "whole", segments), build(tmp_path / "parts", segments)
    expected = run(whole)
    with room_of(room_bytes):
        found = run(in_parts)
    assert (found.records_read, found.records_kept) == (
        expected.records_read,
        expected.records_kept,
    )
    assert 0 < found.records_kept < found.records_read
    assert log_bytes(in_parts, 0) == log_bytes(whole, 0)
    check_indexes(in_parts)


def test_large_batch_that_cannot_be_written_again_is_told_and_left(tmp_path: Path) -> None:
    directory = build(tmp_path, [large_batches("zstd"), active(320)])
    before = log_bytes(directory, 0)
    config = replace(CONFIG, max_decompressed_bytes=300)
    with (
        room_of(100),
        pytest.raises(DecompressedSizeError, match=r"of 40 records of a batch stay, \d+ bytes"),
    ):
        run(directory, config)
    assert log_bytes(directory, 0) == before
    assert not temporary_names(directory)


def test_large_batch_that_loses_nothing_is_copied_whatever_its_size(tmp_path: Path) -> None:
    rows: list[tuple[bytes | None, bytes | None]] = [(b"k%d" % at, b"v" * 50) for at in range(40)]
    gone = plain_batches([(b"k0", b"old")] * 40, batch_size=40, codec="lz4")
    shifted = plain_batches(rows, base_offset=40, batch_size=40, codec="lz4")
    directory = build(tmp_path, [[*gone, *shifted], active(80)])
    with room_of(100):
        run(directory, replace(CONFIG, max_decompressed_bytes=300))
    assert log_bytes(directory, 0) == b"".join(shifted)

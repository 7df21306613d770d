"""Runs and plans the compaction of one partition, which must tell the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_segmentlog.log.upkeep.compaction import PartitionCompaction, compact, plan_compaction
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.testing.builder import (
    SegmentSpec,
    legacy_message,
    legacy_message_set,
    v2_batch,
)
from tests.support.cleaning import DAY_MS, NOW_MS, build, plain_batches, record

CONFIG = CompactionConfig(file_delete_delay_ms=0)


def run(
    directory: Path, config: CompactionConfig = CONFIG, now_ms: int = NOW_MS
) -> PartitionCompaction:
    # Files are as young as the wall clock says, so nothing is waited for.
    planned = plan(directory, config, now_ms)
    (partition,) = compact([str(directory.parent)], None, config, now_ms)
    expected = replace(partition, removed_files=0, waiting_files=0)
    if partition.passes > 1:
        # A plan has a map that holds all keys.
        counts: dict[str, Any] = {
            "records_read": planned.records_read,
            "records_kept": planned.records_kept,
        }
        expected = replace(expected, passes=1, **counts)
    assert planned == expected
    return partition


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def plan(directory: Path, config: CompactionConfig, now_ms: int) -> PartitionCompaction:
    before = contents(directory)
    (planned,) = plan_compaction([str(directory.parent)], None, config, now_ms)
    assert contents(directory) == before
    return planned


def active(base_offset: int) -> list[bytes]:
    """A last segment, which is never cleaned."""
    return plain_batches([(b"active", b"%d" % base_offset)], base_offset=base_offset)


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def data(producer_id: int, base: int, *pairs: tuple[bytes, bytes | None], **kwargs: int) -> bytes:
    return v2_batch(
        [record(key, value) for key, value in pairs],
        base_offset=base,
        transactional=True,
        producer_id=producer_id,
        producer_epoch=kwargs.get("epoch", 0),
        base_sequence=kwargs.get("sequence", 0),
    )


def old_format_log(path: Path, magic: int, codec: str) -> Path:
    specs = [record(b"a", b"1"), record(b"b", b"1"), record(b"a", None), record(b"c", b"")]
    messages = legacy_message_set(magic, specs, codec=codec)
    more = legacy_message(magic, offset=4, key=b"b", value=b"2")
    directory = build(
        path,
        [
            SegmentSpec([messages], base_offset=0),
            SegmentSpec([more], base_offset=4),
            plain_batches([(b"d", b"1")], base_offset=5),
            active(6),
        ],
    )
    for base_offset, modified_ms in ((0, NOW_MS), (4, NOW_MS + 2 * DAY_MS), (5, NOW_MS)):
        set_modified(directory, base_offset, modified_ms)
    return directory


def set_modified(directory: Path, base_offset: int, modified_ms: int) -> None:
    os.utime(directory / f"{base_offset:020d}.log", ns=(modified_ms * 10**6,) * 2)

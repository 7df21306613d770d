"""A partition directory as the plain readers see it: what retention and compaction leave is told
by it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spark_segmentlog.log.formats.checkpoints import parse_offset_checkpoint
from spark_segmentlog.log.names import TopicPartition, find_base_offsets
from spark_segmentlog.log.upkeep.retention import PartitionRetention, apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.record.plain.batch import RecordBatchHeader, iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import check_crcs, scan_headers
from spark_segmentlog.record.types import flat_bytes
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    offset_index_bytes,
    time_index_bytes,
    v2_batch,
)

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
TOPIC = "t"
PARTITION = TopicPartition(TOPIC, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A data record."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: int = 0


def record(key: bytes | None, value: bytes | None, timestamp_ms: int = NOW_MS) -> RecordSpec:
    return RecordSpec(key=key, value=value, timestamp_ms=timestamp_ms)


def plain_batches(
    rows: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: int = 0,
    timestamp_ms: int = NOW_MS,
    batch_size: int = 2,
    codec: str = "none",
) -> list[bytes]:
    """Build batches of (key, value) rows with dense offsets."""
    return [
        v2_batch(
            [record(key, value, timestamp_ms) for key, value in rows[at : at + batch_size]],
            base_offset=base_offset + at,
            codec=codec,
        )
        for at in range(0, len(rows), batch_size)
    ]


def build(
    path: Path, segments: Sequence[SegmentSpec | Sequence[bytes]], *, clean: bool = True
) -> Path:
    """Write a log directory with one partition; gives the partition directory."""
    log = LogBuilder(path)
    directory = log.partition(TOPIC, 0, segments)
    if clean:
        log.clean_shutdown()
    return directory


def segment_offsets(directory: Path) -> list[int]:
    return find_base_offsets(os.listdir(directory))


def log_bytes(directory: Path, base_offset: int) -> bytes:
    return (directory / f"{base_offset:020d}.log").read_bytes()


def split_log(data: bytes) -> list[bytes]:
    """Cut a log into whole batches; everything in it must be valid."""
    buffer = flat_bytes(np.frombuffer(data, np.uint8))
    table = scan_headers(buffer, 0, len(buffer), file_position=0)
    assert table.end_position == len(data)
    assert check_crcs(buffer, table, file_position=0).all()
    return [
        data[start : start + size]
        for start, size in zip(table.position.tolist(), table.size_bytes.tolist(), strict=True)
    ]


def headers(directory: Path) -> list[RecordBatchHeader]:
    """Read the headers of all batches of format 2."""
    return [
        RecordBatchHeader.unpack(batch, 0)
        for base_offset in segment_offsets(directory)
        for batch in split_log(log_bytes(directory, base_offset))
        if batch[16] == 2
    ]


def rows(directory: Path) -> list[Row]:
    """Read all data records; offsets must ascend over the whole log."""
    found = []
    for base_offset in segment_offsets(directory):
        for batch in split_log(log_bytes(directory, base_offset)):
            found.extend(_rows_of(batch))
    offsets = [row.offset for row in found]
    assert offsets == sorted(set(offsets))
    return found


def _rows_of(batch: bytes) -> list[Row]:
    if batch[16] == 2 and RecordBatchHeader.unpack(batch, 0).is_control:
        return []
    iterate = iterate_records if batch[16] == 2 else iterate_messages
    return [
        Row(
            offset=record.offset,
            key=record.key,
            value=record.value,
            timestamp_ms=record.timestamp_ms,
            headers=len(record.headers),
        )
        for record in iterate(batch)
    ]


def kept(directory: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(row.offset, row.key, row.value) for row in rows(directory)]


def check_indexes(directory: Path, *, skip_last: bool = True) -> None:
    """Compare the indexes of segments with what the builder makes from their batches."""
    offsets = segment_offsets(directory)
    for base_offset in offsets[:-1] if skip_last else offsets:
        batches = split_log(log_bytes(directory, base_offset))
        name = f"{base_offset:020d}"
        index = (directory / f"{name}.index").read_bytes()
        time_index = (directory / f"{name}.timeindex").read_bytes()
        assert index == offset_index_bytes(batches, base_offset)
        assert time_index == time_index_bytes(batches, base_offset)


def checkpoint(directory: Path, name: str) -> int | None:
    path = directory.parent / name
    if not path.exists():
        return None
    offsets = parse_offset_checkpoint(path.read_text())
    assert offsets is not None
    return offsets.get(PARTITION)


def temporary_names(directory: Path) -> list[str]:
    suffixes = (".cleaned", ".swap", ".deleted", ".tmp")
    return sorted(name for name in os.listdir(directory) if name.endswith(suffixes))


def run_retention(
    directory: Path, config: RetentionConfig, now_ms: int = NOW_MS
) -> PartitionRetention:
    (partition,) = apply_retention([str(directory.parent)], None, config, now_ms)
    return partition


def aged(ages_ms: list[int]) -> list[list[bytes]]:
    """One segment of two records for each age."""
    return [
        plain_batches(
            [(b"k", b"v"), (b"l", b"w")], base_offset=2 * place, timestamp_ms=NOW_MS - age
        )
        for place, age in enumerate(ages_ms)
    ]

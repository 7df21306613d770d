"""Planning a directory of very many segments, against walking it.

The segments are sparse files: one real batch at the front, then a hole. Each index holds the one
entry a reader may ask for.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyspark.sql.types import StructType

from tests.bench.harness import Figure, Settings, Timings, seconds, take_turns
from tests.bench.log_files import (
    FIRST_TIMESTAMP_MS,
    batch,
    batch_templates,
    write_clean_shutdown,
)

SEGMENTS_COUNT = 100_000
# So few that a lookup by time compares the index of each with its log.
COMPARED_SEGMENTS_COUNT = 10_000
PARTITIONS_COUNT = 100
OFFSETS_PER_SEGMENT = 1_000
SPARSE_LOG_BYTES = 1 << 20
TOPIC = "sparse"
TIME_ENTRY_BYTES = 12


def planning_figures(settings: Settings) -> Iterator[Figure]:
    """Measure planning with an offset and with a time filter."""
    partitions_count = min(PARTITIONS_COUNT, settings.sized(PARTITIONS_COUNT))
    many, fewer = (
        max(2, settings.sized(count) // partitions_count)
        for count in (SEGMENTS_COUNT, COMPARED_SEGMENTS_COUNT)
    )
    for name, per_partition, walk in (
        ("planning_by_offset", many, walk_names),
        ("planning_by_time", many, walk_time_indexes),
        ("planning_by_time_compared", fewer, walk_time_indexes),
    ):
        directory = sparse_log_directory(settings.cache, partitions_count, per_partition)
        by_offset, by_time = late_options(partitions_count, per_partition)
        options = by_offset if walk is walk_names else by_time
        ours, walked = take_turns(
            [
                seconds(partial(plan, directory, options)),
                seconds(partial(walk, directory)),
            ],
            settings.repetitions,
        )
        yield _figure(name, ours, walked, partitions_count * per_partition)


def late_options(
    partitions_count: int, segments_count: int
) -> tuple[dict[str, str], dict[str, str]]:
    """Start in the last segment but one, by offset and by time.

    Planning must look at, and leave out, all that lie before.
    """
    wanted_offset = (segments_count - 2) * OFFSETS_PER_SEGMENT
    starts = {TOPIC: {str(number): wanted_offset for number in range(partitions_count)}}
    by_offset = {"startingOffsets": json.dumps(starts)}
    return by_offset, {"startingTimestamp": str(FIRST_TIMESTAMP_MS + wanted_offset)}


def plan(directory: Path, options: dict[str, str]) -> int:
    """Plan a batch read, as Spark's planning worker does, and return its input partitions."""
    from spark_segmentlog.spark.datasource import SegmentLogDataSource

    source = SegmentLogDataSource({"path": str(directory), **options})
    schema = source.schema()
    assert isinstance(schema, StructType)
    input_partitions = source.reader(schema).partitions()
    assert input_partitions
    return len(input_partitions)


def walk_names(directory: Path) -> int:
    """Walk the tree by ``os.scandir`` and count what is there."""
    count = 0
    with os.scandir(directory) as partitions:
        for partition in partitions:
            if partition.is_dir():
                with os.scandir(partition.path) as files:
                    count += sum(1 for _ in files)
    return count


def walk_time_indexes(directory: Path) -> int:
    """Walk the tree and read the last entry of each time index."""
    read = 0
    with os.scandir(directory) as partitions:
        for partition in partitions:
            if partition.is_dir():
                with os.scandir(partition.path) as files:
                    for file in files:
                        if file.name.endswith(".timeindex"):
                            read += len(_last_entry(file.path))
    return read


def sparse_log_directory(cache: Path, partitions_count: int, segments_count: int) -> Path:
    """Return a log directory with that many partitions of that many segments each."""
    directory = cache / f"sparse-{partitions_count}-{segments_count}"
    if directory.is_dir():
        return directory
    unfinished = cache / f"{directory.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    (records, *_) = batch_templates(1, "none")
    for number in range(partitions_count):
        partition = unfinished / f"{TOPIC}-{number}"
        partition.mkdir(parents=True)
        for segment in range(segments_count):
            is_last = segment == segments_count - 1
            _write_segment(partition, segment * OFFSETS_PER_SEGMENT, records, is_last)
    write_clean_shutdown(unfinished)
    unfinished.rename(directory)
    return directory


def _write_segment(partition: Path, base_offset: int, records: bytes, is_last: bool) -> None:
    stem = f"{partition}/{base_offset:020d}"
    with open(f"{stem}.log", "wb") as log:
        log.write(batch(records, base_offset, 1, "none"))
        if not is_last:
            log.truncate(SPARSE_LOG_BYTES)
    with open(f"{stem}.index", "wb") as index:
        index.write(struct.pack(">ii", 0, 0))
    with open(f"{stem}.timeindex", "wb") as time_index:
        time_index.write(struct.pack(">qi", FIRST_TIMESTAMP_MS + base_offset, 0))


def _last_entry(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        return os.pread(descriptor, TIME_ENTRY_BYTES, max(0, end - TIME_ENTRY_BYTES))
    finally:
        os.close(descriptor)


def _figure(name: str, ours: Timings, walked: Timings, segments_count: int) -> Figure:
    detail = f"{segments_count} segments: {ours.best:.2f} s; walk {walked.best:.2f} s"
    return Figure(name=name, value=ours.best / walked.best, detail=detail)

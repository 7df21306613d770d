"""Scans of a log in a store behind a network, against the plain download of the same segments.

Both go through one client, by ranges of one size, with about as many requests under way. What a
scan does beside must fit into the waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import spark_segmentlog
from spark_segmentlog.log.io.far_storage import FarStorage
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.io.remote_file import BLOCKS_AHEAD, READ_AHEAD_BYTES
from spark_segmentlog.log.io.storage_options import StorageOptions
from tests.bench.harness import Figure, Settings, Timings, seconds, take_turns
from tests.bench.log_files import ABORT_EVERY, LogShape, generate_partition
from tests.bench.slow_store import slow_store

WAIT_MS = 30
CONNECTION_MB = 25
RECORDS_COUNT = 2_000_000
RECORDS_PER_BATCH = 100
SEGMENT_BYTES = 64 << 20
SMALL_SEGMENTS_COUNT = 327
SMALL_SEGMENT_RECORDS = 500


def far_figures(settings: Settings) -> Iterator[Figure]:
    """Measure large segments, small ones, small batches, and a log of transactions."""
    shapes = {
        "far_large": {},
        "far_small_batches": {"records_per_batch": 1, "records_count": RECORDS_COUNT // 4},
        "far_committed": {"transaction_batches": 10},
        "far_small_segments": {
            "records_count": SMALL_SEGMENTS_COUNT * SMALL_SEGMENT_RECORDS,
            "segment_records": SMALL_SEGMENT_RECORDS,
        },
    }
    with slow_store(settings.cache.parent, wait_ms=WAIT_MS, connection_mb=CONNECTION_MB) as url:
        for name, differences in shapes.items():
            yield _figure(name, url, _shape(settings, **differences), settings)


def _shape(settings: Settings, **differences: Any) -> LogShape:
    usual = {
        "records_count": RECORDS_COUNT,
        "records_per_batch": RECORDS_PER_BATCH,
        "segment_bytes": SEGMENT_BYTES,
    }
    chosen = usual | differences
    records_count = settings.sized(chosen["records_count"], multiple_of=chosen["records_per_batch"])
    return LogShape(**chosen | {"records_count": records_count})


def _figure(name: str, url: str, shape: LogShape, settings: Settings) -> Figure:
    directory = generate_partition(settings.cache, shape)
    uri = f"s3://{settings.cache.name}/{directory.name}"
    scan, download = take_turns(
        [
            seconds(lambda: _scan(uri, url, shape)),
            seconds(lambda: _download(uri, url, shape)),
        ],
        settings.repetitions,
    )
    size = sum(path.stat().st_size for path in directory.rglob("*.log"))
    return Figure(
        name=name,
        value=scan.best / download.best,
        detail=f"{_rate(size, scan)}; download {_rate(size, download)}",
    )


def _rate(size_bytes: int, timings: Timings) -> str:
    return f"{timings.best:.2f} s, {size_bytes / 1e6 / timings.best:.0f} MB/s"


def _scan(uri: str, url: str, shape: LogShape) -> None:
    isolation_level = "read_committed" if shape.transaction_batches else "read_uncommitted"
    reader = spark_segmentlog.read_arrow(
        uri,
        kafka_isolation_level=isolation_level,
        storage_endpoint=url,
        storage_anonymous=True,
        storage_region="us-east-1",
    )
    rows = sum(batch.num_rows for batch in reader)
    assert shape.records_count * (1 - 2 / ABORT_EVERY) <= rows <= shape.records_count


def _download(uri: str, url: str, shape: LogShape) -> None:
    options = StorageOptions(endpoint=url, is_anonymous=True, region="us-east-1")
    storage, path = resolve_storage(uri, options)
    assert isinstance(storage, FarStorage)
    folder = f"{path}/{shape.topic}-0"
    ranges = [
        (f"{folder}/{child.name}", position, min(READ_AHEAD_BYTES, child.size - position))
        for child in storage.children(folder)
        if child.name.endswith(".log") and child.size is not None
        for position in range(0, child.size, READ_AHEAD_BYTES)
    ]
    with ThreadPoolExecutor(BLOCKS_AHEAD) as pool:
        read = pool.map(lambda part: len(storage.ranges(part[0]).read(*part[1:])), ranges)
        assert sum(read) == sum(length for _, _, length in ranges)

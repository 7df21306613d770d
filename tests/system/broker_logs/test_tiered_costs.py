"""What reads of a store of objects cost: requests and bytes, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.record.read.record_filter import RecordFilter
from tests.support.object_store import PAGE, RECORDS, ObjectStore, add_partition

SEGMENTS = 10_000
OBJECTS = 3 * SEGMENTS
# The folders of topics, and those of partitions.
FINDING_THE_LAYOUT = 2


@pytest.fixture(scope="module")
def store() -> ObjectStore:
    store = ObjectStore()
    add_partition(store, "bucket/tier", "t", SEGMENTS)
    return store


def open_log(store: ObjectStore, filesystem: Any = None) -> PartitionLog:
    store.reset()
    manager = LogManager.open("bucket/tier", filesystem=filesystem or store.filesystem())
    return manager.partition_log(TopicPartition("t", 0))


def read(log: PartitionLog, start: int, end: int) -> pa.Table:
    segments = tuple(log.segments_between(start, end))
    options = ScanOptions(
        columns=("offset", "value"),
        record_filter=RecordFilter(start_offset=start, end_offset=end),
    )
    return pa.Table.from_batches(scan_segments(segments, options))


def opened(store: ObjectStore) -> Counter[str]:
    return Counter(path.rpartition(".")[2] for path, _, _ in store.reads)


@pytest.mark.parametrize("opening", ["pyarrow", "fsspec"])
def test_a_lookup_among_many_segments(store: ObjectStore, opening: str) -> None:
    is_arrow = opening == "pyarrow"
    log = open_log(store, store.filesystem() if is_arrow else store.fsspec_filesystem())
    assert store.requests == {"list": OBJECTS // PAGE + FINDING_THE_LAYOUT}
    offset = SEGMENTS // 2 * RECORDS + 5
    rows = read(log, offset, offset + 1)
    assert rows.to_pylist() == [{"offset": offset, "value": b"v5"}]
    # The manifest, the one index, and the chunk that holds it, each once.
    assert opened(store) == {"rsm-manifest": 1, "indexes": 1, "log": 1}
    assert store.requests["list"] == OBJECTS // PAGE + FINDING_THE_LAYOUT
    # pyarrow asks for the size of all that it opens; nobody else asks again for what was listed.
    assert store.requests["head"] == (3 if is_arrow else 0)


def test_a_scan_reads_each_object_once(store: ObjectStore) -> None:
    log = open_log(store)
    start, end = 100 * RECORDS, 120 * RECORDS
    assert read(log, start, end).column("offset").to_pylist() == list(range(start, end))
    assert opened(store) == {"rsm-manifest": 20, "log": 20}
    assert len({path for path, _, _ in store.reads}) == len(store.reads)


def test_plain_chunks_are_read_in_blocks_of_some_mib() -> None:
    store = ObjectStore()
    add_partition(store, "bucket/tier", "t", 1, value_bytes=3 << 20)
    log = open_log(store)
    assert read(log, 0, RECORDS).num_rows == RECORDS
    size = sum(len(data) for path, data in store.objects.items() if path.endswith(".log"))
    reads = [length for path, _, length in store.reads if path.endswith(".log")]
    assert size > 30 << 20
    assert sum(reads) == size
    assert len(reads) == -(-size // (4 << 20))


def test_bounds_of_a_partition_cost_its_manifests_and_its_last_segment(store: ObjectStore) -> None:
    log = open_log(store)
    assert (log.log_start_offset, log.log_end_offset) == (0, SEGMENTS * RECORDS)
    assert log.last_stable_offset() == SEGMENTS * RECORDS
    assert opened(store)["rsm-manifest"] == SEGMENTS
    others = [path for path, _, _ in store.reads if not path.endswith("rsm-manifest")]
    assert {path.rpartition("/")[2][:20] for path in others} == {f"{(SEGMENTS - 1) * RECORDS:020d}"}
    assert len(others) <= 4

"""Segments in a store that overlap: each offset once, from the leader whose record it is."""

from __future__ import annotations

import pytest

from spark_segmentlog.errors import DataLossError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.testing.batches import RecordSpec, v2_batch
from tests.support.object_store import RECORDS, ObjectStore, add_segment

ROOT = "bucket/tier"


def add(store: ObjectStore, name: str, start: int, end: int, epochs: list[tuple[int, int]]) -> None:
    """Add a segment of offsets [start, end) whose values are the name's first letter."""
    batch = v2_batch([RecordSpec(value=name[:1].encode())] * RECORDS)
    batches = [batch] * ((end - start) // RECORDS)
    add_segment(store, ROOT, "t", start, batches, segment_id=name.ljust(22, "A"), epochs=epochs)


def open_log(store: ObjectStore) -> PartitionLog:
    manager = LogManager.open(ROOT, filesystem=store.filesystem())
    return manager.partition_log(TopicPartition("t", 0))


def values(log: PartitionLog, start: int = 0, end: int | None = None) -> list[tuple[int, bytes]]:
    options = ScanOptions(columns=("offset", "value"))
    found = log.scan(start_offset=start, end_offset=end, options=options)
    return [(row["offset"], row["value"]) for batch in found for row in batch.to_pylist()]


def spans(*parts: tuple[bytes, int, int]) -> list[tuple[int, bytes]]:
    return [(offset, value) for value, start, end in parts for offset in range(start, end)]


def test_what_a_new_leader_took_back_is_not_read() -> None:
    store = ObjectStore()
    add(store, "old1", 0, 50, [(0, 0)])
    add(store, "old2", 50, 100, [(0, 0)])
    add(store, "new1", 30, 60, [(0, 0), (1, 40)])
    add(store, "new2", 60, 120, [(0, 0), (1, 40)])
    wanted = spans((b"o", 0, 30), (b"n", 30, 120))
    assert values(open_log(store)) == wanted
    for start, end in ((25, 35), (45, 65), (99, 120)):
        assert values(open_log(store), start, end) == wanted[start:end]


def test_a_copy_within_another_serves_its_part() -> None:
    store = ObjectStore()
    add(store, "outer", 0, 100, [(0, 0)])
    add(store, "inner", 50, 60, [(0, 0)])
    wanted = spans((b"o", 0, 50), (b"i", 50, 60), (b"o", 60, 100))
    assert values(open_log(store)) == wanted
    for start, end in ((0, 10), (45, 65), (60, 100), (77, 83)):
        assert values(open_log(store), start, end) == wanted[start:end]


def test_of_two_copies_of_one_segment_one_serves() -> None:
    store = ObjectStore()
    add(store, "first", 0, 50, [(0, 0)])
    add(store, "second", 0, 50, [(0, 0)])
    add(store, "next", 50, 80, [(0, 0)])
    assert [offset for offset, _ in values(open_log(store))] == list(range(80))


def test_a_hole_is_data_loss() -> None:
    store = ObjectStore()
    add(store, "a", 0, 50, [(0, 0)])
    add(store, "b", 70, 80, [(0, 0)])
    with pytest.raises(DataLossError, match=r"\[50, 70\) of topic partition t-0"):
        values(open_log(store))
    assert values(open_log(store), 70) == spans((b"b", 70, 80))


@pytest.mark.parametrize("has_copy", [True, False])
def test_what_went_since_the_listing_is_read_elsewhere_or_lost(has_copy: bool) -> None:
    store = ObjectStore()
    add(store, "a", 0, 50, [(0, 0)])
    add(store, "b", 50, 100, [(0, 0)])
    add(store, "d", 100, 110, [(0, 0)])
    manager = LogManager.open(ROOT, filesystem=store.fsspec_filesystem())
    log = manager.partition_log(TopicPartition("t", 0))
    assert log.log_end_offset == 110
    for path in [path for path in store.objects if "050-b" in path]:
        del store.objects[path]
    if has_copy:
        add(store, "c", 50, 100, [(0, 0)])
        assert values(log) == spans((b"a", 0, 50), (b"c", 50, 100), (b"d", 100, 110))
    else:
        with pytest.raises(DataLossError, match=r"\[50, 100\) of topic partition t-0"):
            values(log)

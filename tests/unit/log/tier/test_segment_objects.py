"""Objects of segments are read from whichever store has them; what none has is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.tier.remote_segment import IndexKind, RemotePiece, SegmentPlace
from spark_segmentlog.log.tier.remote_source import RemoteSource
from spark_segmentlog.log.tier.segment_objects import SegmentObjects
from spark_segmentlog.log.tier.tiered_storage import TieredStorage
from spark_segmentlog.testing.batches import RecordSpec, v2_batch
from tests.support.object_store import RECORDS, ObjectStore, add_segment

ROOT = "bucket/tier"
SEGMENT = "a".ljust(22, "A")


def one_segment() -> tuple[ObjectStore, TieredStorage]:
    """A store with one segment of three batches."""
    store = ObjectStore()
    batches = [v2_batch([RecordSpec(value=b"v")] * RECORDS)] * 3
    add_segment(store, ROOT, "t", 0, batches, segment_id=SEGMENT, epochs=[(0, 0)])
    manager = LogManager.open(ROOT, filesystem=store.filesystem())
    (log,) = manager.topic_partitions.values()
    storage = log.storage
    assert isinstance(storage, TieredStorage)
    return store, storage


def objects_of(storage: TieredStorage, gone: set[str]) -> tuple[SegmentObjects, RemotePiece]:
    """Read from two stores, of which the first has nothing."""
    remote = storage.remote
    (piece,) = remote.pieces()
    (place,) = piece.segment.places
    places = (SegmentPlace(place.store, f"{place.path}-missing"), place)
    piece = replace(piece, segment=replace(piece.segment, places=places))
    source = RemoteSource(remote.source.stores, ())
    return SegmentObjects(source, remote.partition, gone), piece


def test_the_store_that_has_a_segment_serves_it() -> None:
    _, storage = one_segment()
    gone: set[str] = set()
    objects, piece = objects_of(storage, gone)
    (described,) = objects.describe_all([piece.segment])
    assert (described.base_offset, described.end_offset) == (0, 3 * RECORDS)
    with objects.open_log(piece) as file:
        assert file.size() == described.size_bytes
    assert objects.read_index(piece, IndexKind.OFFSET)
    assert gone == set()


def test_a_segment_that_no_store_has_is_told_to_all() -> None:
    store, storage = one_segment()
    gone: set[str] = set()
    objects, piece = objects_of(storage, gone)
    store.objects.clear()
    assert objects.describe_all([piece.segment]) == []
    assert gone == {SEGMENT}
    gone.clear()
    with pytest.raises(FileNotFoundError, match=r"tier/.*-missing"):
        objects.open_log(piece)
    assert gone == {SEGMENT}
    assert objects.read_index(piece, IndexKind.OFFSET) is None


def test_a_piece_that_begins_inside_a_segment_has_no_offset_index_and_the_rest_of_the_log() -> None:
    _, storage = one_segment()
    objects, piece = objects_of(storage, set())
    later = RemotePiece(piece.segment, RECORDS, 3 * RECORDS)
    assert later.is_cut
    assert objects.read_index(later, IndexKind.OFFSET) is None
    assert objects.read_index(later, IndexKind.PRODUCER_SNAPSHOT) is not None
    with objects.open_log(piece) as whole:
        assert objects.size_bytes(later) == whole.size() // 3 * 2

"""The stores of a read: what was read of them does not travel."""

from __future__ import annotations

import pickle
from pathlib import Path

from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.tier.remote_segment import (
    RemoteSegment,
    SegmentPlace,
    TopicIdPartition,
)
from spark_segmentlog.log.tier.remote_source import RemoteSource
from spark_segmentlog.log.tier.stores import RemoteStore


def test_a_source_travels_without_what_was_read(tmp_path: Path) -> None:
    stores = [RemoteStore(LOCAL, str(tmp_path), "local")]
    source = RemoteSource(stores, (("pair", "/key"),), [(LOCAL, str(tmp_path))])
    source.described["a"] = RemoteSegment(
        segment_id="a", places=(SegmentPlace(0, "/a"),), base_offset=0
    )
    copy = pickle.loads(pickle.dumps(source))
    assert (copy.stores, copy.keys) == (source.stores, source.keys)
    assert copy.described == {}


def test_without_a_metadata_topic_nothing_is_known_of_a_partition(tmp_path: Path) -> None:
    source = RemoteSource([], (), [(LOCAL, str(tmp_path)), (LOCAL, str(tmp_path / "gone"))])
    partition = TopicIdPartition(TopicPartition("t", 0), "A" * 22)
    assert source.metadata.find(partition) is None
    assert source.metadata is source.metadata

"""Records of the metadata topic, against what Kafka's own serde prints of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.tier.metadata_records import (
    PartitionDelete,
    SegmentRecord,
    SegmentState,
    SegmentUpdate,
    parse_metadata_record,
)
from spark_segmentlog.log.tier.metadata_topic import MetadataTopic
from spark_segmentlog.testing.batches import RecordSpec, v2_batch
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.store_data import Store
from tests.support.tier_records import SAMPLES

OpenStore = Callable[[str], Store]


@pytest.mark.parametrize("name", ["aiven-zstd"])
def test_the_topic_is_read_on_from_where_it_was(open_store: OpenStore, name: str) -> None:
    store = open_store(name)
    topic = MetadataTopic([(LOCAL, store.log_directory)])
    topic.refresh()
    before = {partition: topic.find(partition) for partition in topic.partitions()}
    topic.refresh()
    assert {partition: topic.find(partition) for partition in topic.partitions()} == before
    states = {
        segment.state
        for record in before.values()
        if record is not None
        for segment in record.segments.values()
    }
    assert SegmentState.COPY_FINISHED in states
    assert SegmentState.DELETE_FINISHED in states


def test_a_record_of_another_version_names_its_place(tmp_path: Path) -> None:
    batch = v2_batch([RecordSpec(value=b"\1\0\1")])
    LogBuilder(tmp_path).partition("__remote_log_metadata", 0, [[batch]])
    with pytest.raises(RemoteStorageError, match=r"offset 0 of .*metadata-0: .*version 1"):
        MetadataTopic([(LOCAL, str(tmp_path))]).refresh()


def test_the_samples_are_records() -> None:
    kinds = [type(parse_metadata_record(sample)) for sample in SAMPLES]
    assert kinds == [SegmentRecord, SegmentUpdate, PartitionDelete]

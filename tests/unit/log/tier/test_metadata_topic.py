"""Records of the metadata topic, against what Kafka's own serde prints of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.tier.metadata_records import (
    MetadataRecord,
    PartitionDelete,
    PartitionState,
    SegmentRecord,
    SegmentState,
    SegmentUpdate,
    parse_metadata_record,
)
from spark_segmentlog.log.tier.metadata_topic import MetadataTopic
from spark_segmentlog.record.system.message_reader import MessageError
from spark_segmentlog.testing.batches import RecordSpec, v2_batch
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.store_data import STORES, Store

OpenStore = Callable[[str], Store]

_STATE_NAMES = {
    SegmentState.COPY_STARTED: "COPY_SEGMENT_STARTED",
    SegmentState.COPY_FINISHED: "COPY_SEGMENT_FINISHED",
    SegmentState.DELETE_STARTED: "DELETE_SEGMENT_STARTED",
    SegmentState.DELETE_FINISHED: "DELETE_SEGMENT_FINISHED",
}


def values(store: Store) -> Iterator[tuple[str, bytes]]:
    """Give each record's partition and offset, as text, and its value."""
    for batch in read_arrow(
        store.log_directory,
        subscribe="__remote_log_metadata",
        columns=["partition", "offset", "value"],
    ):
        for row in batch.to_pylist():
            yield f"__remote_log_metadata-{row['partition']} {row['offset']}", row["value"]


@pytest.mark.parametrize("name", STORES)
def test_records_are_what_kafka_prints(open_store: OpenStore, name: str) -> None:
    store = open_store(name)
    printed = {" ".join(it.split(" ", 2)[:2]): it.split(" ", 2)[2] for it in store.metadata_text()}
    found = {place: parse_metadata_record(value) for place, value in values(store)}
    assert found.keys() == printed.keys()
    for place, record in found.items():
        text = printed[place]
        assert not isinstance(record, PartitionDelete)
        assert all(part in text for part in _printed_parts(record)), (text, record)


def _printed_parts(record: SegmentRecord | SegmentUpdate) -> list[str]:
    parts = [
        f"{record.partition.topic_id}:{record.partition.topic_partition}",
        f"id={record.segment_id}}}",
        f"state={_STATE_NAMES[record.state]}",
        "customMetadata=Optional" + (".empty" if record.custom_metadata is None else "["),
    ]
    if isinstance(record, SegmentRecord):
        epochs = ", ".join(f"{it.epoch}={it.start_offset}" for it in record.leader_epochs)
        parts += [
            f"startOffset={record.base_offset},",
            f"endOffset={record.end_offset - 1},",
            f"maxTimestampMs={record.max_timestamp_ms},",
            f"segmentSizeInBytes={record.size_bytes},",
            f"segmentLeaderEpochs={{{epochs}}}",
            f"txnIdxEmpty={str(not record.has_transaction_index).lower()}",
        ]
    return parts


def test_a_record_of_a_deleted_partition() -> None:
    body = b"\2t" + bytes(16) + b"\0\0\0\7" + b"\0" + bytes(4) + bytes(8) + b"\2" + b"\0"
    record = parse_metadata_record(b"\1\2\0" + body)
    assert isinstance(record, PartitionDelete)
    assert record.state is PartitionState.DELETE_FINISHED
    assert str(record.partition.topic_partition) == "t-7"


@pytest.mark.parametrize("name", ["aiven-zstd"])
def test_the_topic_is_read_on_from_where_it_was(open_store: OpenStore, name: str) -> None:
    store = open_store(name)
    topic = MetadataTopic([(LOCAL, store.log_directory)])
    topic.refresh()
    before = {it: topic.find(it) for it in topic.partitions()}
    topic.refresh()
    assert {it: topic.find(it) for it in topic.partitions()} == before
    states = {
        segment.state
        for it in before.values()
        if it is not None
        for segment in it.segments.values()
    }
    assert SegmentState.COPY_FINISHED in states
    assert SegmentState.DELETE_FINISHED in states


def test_a_record_of_another_version_names_its_place(tmp_path: Path) -> None:
    batch = v2_batch([RecordSpec(value=b"\1\0\1")])
    LogBuilder(tmp_path).partition("__remote_log_metadata", 0, [[batch]])
    with pytest.raises(RemoteStorageError, match=r"offset 0 of .*metadata-0: .*version 1"):
        MetadataTopic([(LOCAL, str(tmp_path))]).refresh()


@given(st.data())
@settings(max_examples=300)
def test_any_record_is_read_or_refused(data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from(_SAMPLES)))
    kind = data.draw(st.sampled_from(["flip", "cut", "any"]))
    if kind == "flip":
        for _ in range(data.draw(st.integers(1, 4))):
            value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    elif kind == "cut":
        del value[data.draw(st.integers(0, len(value))) :]
    else:
        value[3:] = data.draw(st.binary(max_size=200))
    try:
        record: MetadataRecord = parse_metadata_record(bytes(value))
    except MessageError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", record.partition.topic_id)


def _sample_segment() -> bytes:
    partition = b"\2t" + bytes(range(16)) + b"\0\0\0\1" + b"\0"
    segment_id = partition + bytes(range(16, 32)) + b"\0"
    numbers = (0).to_bytes(8, "big") + (99).to_bytes(8, "big") + bytes(4)
    times = (1700000000000).to_bytes(8, "big") * 2
    epochs = b"\3" + b"\0\0\0\0" + bytes(8) + b"\0" + b"\0\0\0\2" + (50).to_bytes(8, "big") + b"\0"
    end = b"\0\0\x10\0" + b"\4abc" + b"\1" + b"\1\0\1\1"
    return b"\1\0\0" + segment_id + numbers + times + epochs + end


_SAMPLES = (
    _sample_segment(),
    b"\1\1\0\2t" + bytes(16) + b"\0\0\0\1\0" + bytes(16) + b"\0" + bytes(12) + b"\0\1\0",
    b"\1\2\0\2t" + bytes(16) + b"\0\0\0\1\0" + bytes(12) + b"\0\0",
)


def test_the_samples_are_records() -> None:
    kinds = [type(parse_metadata_record(it)) for it in _SAMPLES]
    assert kinds == [SegmentRecord, SegmentUpdate, PartitionDelete]

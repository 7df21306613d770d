"""Records of the metadata topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog import read_arrow
from spark_segmentlog.log.tier.metadata_records import (
    MetadataRecord,
    PartitionDelete,
    PartitionState,
    SegmentRecord,
    SegmentState,
    SegmentUpdate,
    parse_metadata_record,
)
from spark_segmentlog.record.system.message_reader import MessageError
from tests.support.store_data import STORES, Store
from tests.support.tier_records import SAMPLES

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
    printed = {
        " ".join(line.split(" ", 2)[:2]): line.split(" ", 2)[2] for line in store.metadata_text()
    }
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
        epochs = ", ".join(f"{entry.epoch}={entry.start_offset}" for entry in record.leader_epochs)
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


@given(st.data())
@settings(max_examples=300)
def test_any_record_is_read_or_refused(data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from(SAMPLES)))
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

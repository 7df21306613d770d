"""What reads of a log directory in a store of objects cost: requests, counted."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import UnknownTopicOrPartitionError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.stream_planner import StreamPlanner
from spark_segmentlog.record.plain.control import ControlRecordType
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.cleaning import NOW_MS
from tests.support.large_segment import LargeSegment
from tests.support.object_store import ObjectStore, TogetherStore
from tests.support.transaction_batches import data, marker

CHOSEN = 3
OTHERS = 20
RECORDS = 10
GIB = 1 << 30


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    folder: Path = tmp_path_factory.mktemp("far")
    builder = LogBuilder(folder / "logs")
    batches = [
        v2_batch([RecordSpec(value=b"x")] * RECORDS, base_offset=RECORDS * number)
        for number in (0, 1)
    ]
    for topic, count in (("chosen", CHOSEN), ("other", OTHERS)):
        for partition in range(count):
            builder.partition(topic, partition, [[batch] for batch in batches])
    return uploaded(folder)


def uploaded(folder: Path) -> ObjectStore:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return ObjectStore({f"bucket/{file.relative_to(folder)}": file.read_bytes() for file in files})


@pytest.mark.parametrize(
    "selection", [{"subscribe": "chosen"}, {"assign": {"chosen": list(range(CHOSEN))}}]
)
def test_other_topics_are_not_listed(store: ObjectStore, selection: dict[str, Any]) -> None:
    store.reset()
    reader = read_arrow("bucket/logs", filesystem=store.fsspec_filesystem(), **selection)
    # The log directory, and each partition of the topic.
    assert store.requests["list"] == 1 + CHOSEN
    assert reader.read_all().num_rows == CHOSEN * 2 * RECORDS
    assert store.requests["list"] == 1 + CHOSEN
    assert {path.split("/")[2].rpartition("-")[0] for path, _, _ in store.reads} <= {
        "chosen",
        "log-start-offset",
        "recovery-point-offset",
        "replication-offset",
    }


def test_no_size_or_kind_is_asked_for_that_a_listing_told(store: ObjectStore) -> None:
    for view in ("records", "segments", "batches"):
        store.reset()
        filesystem = store.fsspec_filesystem()
        read_arrow("bucket/logs", filesystem=filesystem, subscribe="chosen", view=view).read_all()
        assert store.requests["head"] == 0
        assert store.requests["list"] == 1 + CHOSEN
    store.reset()
    reader = read_arrow(
        "bucket/logs",
        filesystem=store.fsspec_filesystem(),
        assign={"chosen": [0]},
        starting_offsets={"chosen": {"0": 3}},
        ending_offsets={"chosen": {"0": 5}},
    )
    assert reader.read_all().num_rows == 2
    assert len(store.reads) <= 3
    assert store.requests["head"] == 0


@pytest.mark.parametrize(("records", "value_bytes"), [(100, 150), (20, 190), (2, 30)])
@pytest.mark.parametrize("share", [0.0, 0.0001, 0.31, 0.77, 0.99999])
def test_ten_rows_of_a_large_segment_take_three_requests_and_a_megabyte(
    records: int, value_bytes: int, share: float
) -> None:
    value = b"v" * value_bytes
    log = LargeSegment(records, value, GIB // len(LargeSegment(records, value, 1).batch))
    following = struct.pack(">q", log.end_offset) + log.batch[8:]
    store = ObjectStore(
        {
            f"bucket/logs/t-0/{0:020d}.log": log,
            f"bucket/logs/t-0/{0:020d}.index": log.index(),
            f"bucket/logs/t-0/{log.end_offset:020d}.log": following,
        }
    )
    start = int(share * log.end_offset)
    reader = read_arrow(
        "bucket/logs",
        filesystem=store.fsspec_filesystem(),
        assign={"t": [0]},
        starting_offsets={"t": {"0": start}},
        ending_offsets={"t": {"0": start + 10}},
    )
    assert reader.read_all()["offset"].to_pylist() == list(range(start, start + 10))
    assert store.requests["get"] <= 3
    assert sum(length for _, _, length in store.reads) <= 1_000_000
    assert store.requests["head"] == 0


def test_ten_rows_over_the_end_of_a_segment_fetch_little_of_the_next_one() -> None:
    log = LargeSegment(20, b"v" * 190, 10_000)
    following = b"".join(
        struct.pack(">q", log.end_offset + number * log.records) + log.batch[8:]
        for number in range(log.batches)
    )
    store = ObjectStore(
        {
            f"bucket/logs/t-0/{0:020d}.log": log,
            f"bucket/logs/t-0/{0:020d}.index": log.index(),
            f"bucket/logs/t-0/{log.end_offset:020d}.log": following,
            f"bucket/logs/t-0/{2 * log.end_offset:020d}.log": b"",
        }
    )
    reader = read_arrow(
        "bucket/logs",
        filesystem=store.fsspec_filesystem(),
        assign={"t": [0]},
        starting_offsets={"t": {"0": log.end_offset - 5}},
        ending_offsets={"t": {"0": log.end_offset + 5}},
    )
    assert reader.read_all().num_rows == 10
    assert store.requests["get"] <= 4
    assert sum(length for _, _, length in store.reads) <= 1_300_000


SMALL_SEGMENTS = 40
LATE = NOW_MS + 1
LOGS, TIME_INDEXES = {"log": SMALL_SEGMENTS}, {"timeindex": SMALL_SEGMENTS}
SMALL_READS: list[tuple[dict[str, Any], int, dict[str, int]]] = [
    ({}, SMALL_SEGMENTS * RECORDS, LOGS),
    ({"kafka_isolation_level": "read_committed"}, SMALL_SEGMENTS * RECORDS, LOGS),
    ({"view": "batches"}, SMALL_SEGMENTS + 1, LOGS),
    ({"view": "transactions"}, 1, LOGS),
    # The last one tells where the log ends.
    ({"view": "segments"}, SMALL_SEGMENTS, TIME_INDEXES | {"log": 1}),
    ({"starting_timestamp": NOW_MS}, SMALL_SEGMENTS * RECORDS, LOGS | TIME_INDEXES),
    (
        {"starting_timestamp": LATE, "starting_offsets_by_timestamp_strategy": "latest"},
        0,
        LOGS | TIME_INDEXES,
    ),
]


@pytest.fixture(scope="module")
def small_segments(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    """One transaction, which begins in the first segment and ends in the last."""
    folder: Path = tmp_path_factory.mktemp("small")
    logs = [[data(1, base, RECORDS)] for base in range(0, SMALL_SEGMENTS * RECORDS, RECORDS)]
    logs[-1].append(marker(ControlRecordType.COMMIT, 1, SMALL_SEGMENTS * RECORDS))
    LogBuilder(folder / "logs").partition("t", 0, logs)
    return uploaded(folder)


def kinds_read(store: ObjectStore) -> Counter[str]:
    return Counter(path.rpartition(".")[2] for path, _, _ in store.reads)


@pytest.mark.parametrize(("options", "rows_count", "reads"), SMALL_READS, ids=str)
def test_small_segments_are_fetched_once_and_side_by_side(
    small_segments: ObjectStore, options: dict[str, Any], rows_count: int, reads: dict[str, int]
) -> None:
    store = TogetherStore(small_segments.objects)
    # Of the first ones fewer are fetched ahead.
    bases = range(20 * RECORDS, 28 * RECORDS, RECORDS)
    for kind, count in reads.items():
        if count == SMALL_SEGMENTS:
            store.await_together(f"bucket/logs/t-0/{base:020d}.{kind}" for base in bases)
    filesystem = store.fsspec_filesystem()
    table = read_arrow("bucket/logs", filesystem=filesystem, subscribe="t", **options).read_all()
    assert table.num_rows == rows_count
    assert kinds_read(store) == reads
    assert store.requests == {"list": 2, "get": sum(reads.values())}


def test_a_scan_of_transactions_reads_each_byte_once(tmp_path: Path) -> None:
    value = bytes(100_000)

    def transactions(base: int) -> list[bytes]:
        """Each ends after the first record of the next one."""
        batches = []
        for number in range(50):
            offset, producer_id = base + 2 * number, number % 2
            batches += [
                v2_batch(
                    [RecordSpec(value=value)],
                    base_offset=offset,
                    transactional=True,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=number // 2,
                ),
                marker(ControlRecordType.COMMIT, 1 - producer_id, offset + 1),
            ]
        return batches

    logs = LogBuilder(tmp_path / "logs")
    logs.partition("t", 0, [transactions(base) for base in (0, 100, 200)])
    store = uploaded(tmp_path)
    size = sum(len(data) for path, data in store.objects.items() if path.endswith(".log"))
    reader = read_arrow(
        "bucket/logs",
        filesystem=store.fsspec_filesystem(),
        subscribe="t",
        kafka_isolation_level="read_committed",
    )
    assert reader.read_all().num_rows == 3 * 50 - 1
    reads = [length for path, _, length in store.reads if path.endswith(".log")]
    # Twice for the end of the log, and for what ends in the next segment.
    assert sum(reads) <= size + 4_000_000
    assert len(reads) <= 3 * 2 + 8


def test_partitions_are_listed_and_their_ends_found_side_by_side(store: ObjectStore) -> None:
    together = TogetherStore(store.objects)
    folders = [f"bucket/logs/other-{partition}" for partition in range(4, 12)]
    together.await_together(folders, among="list")
    together.await_together(f"{folder}/{RECORDS:020d}.log" for folder in folders)
    read_arrow("bucket/logs", filesystem=together.fsspec_filesystem(), subscribe="other")
    assert together.requests["list"] == 1 + OTHERS
    assert kinds_read(together)["log"] == OTHERS


def planner(store: ObjectStore, **options: str) -> StreamPlanner:
    parsed = parse_read_options({"path": "bucket/logs", **options}, streaming=True)
    remote = replace(parsed.remote, storage=store.fsspec_filesystem())
    return StreamPlanner(replace(parsed, remote=remote))


def test_a_trigger_without_news_lists_each_partition_once(store: ObjectStore) -> None:
    options = {"subscribe": "chosen", "startingOffsets": "earliest"}
    stream = planner(store, **options, **{"kafka.isolation.level": "read_committed"})
    start = stream.initial_offset()
    assert stream.latest_offset(start, None) == start
    end = stream.latest_offset(start, None)
    assert set(end.values()) == {2 * RECORDS}
    assert sum(len(split) for split in stream.plan(start, end)) == CHOSEN
    for _ in range(50):
        store.reset()
        assert stream.latest_offset(end, None) == end
        # The log directory, in which partitions may appear, and each partition of the topic.
        assert store.requests == {"list": 1 + CHOSEN}


def test_a_trigger_with_news_reads_what_changed(store: ObjectStore) -> None:
    objects = dict(store.objects)
    growing = ObjectStore(objects)
    stream = planner(growing, subscribe="chosen", startingOffsets="earliest")
    start = stream.initial_offset()
    stream.latest_offset(start, None)
    before = stream.latest_offset(start, None)
    folder = "bucket/logs/chosen-1"
    batch = v2_batch([RecordSpec(value=b"x")] * RECORDS, base_offset=2 * RECORDS)
    objects[f"{folder}/{2 * RECORDS:020d}.log"] = batch
    growing.reset()
    after = stream.latest_offset(before, None)
    grown = TopicPartition("chosen", 1)
    assert after == before | {grown: 3 * RECORDS}
    assert {path.rpartition("/")[0] for path, _, _ in growing.reads} == {folder}
    # The same size, and other bytes: a checkpoint that is written again, a segment cut and grown.
    path = f"{folder}/{2 * RECORDS:020d}.log"
    fewer = v2_batch([RecordSpec(value=b"y" * 10)], base_offset=2 * RECORDS)
    objects[path] = fewer + bytes(len(batch) - len(fewer))
    assert len(objects[path]) == len(batch)
    assert stream.latest_offset(before, None)[grown] == 2 * RECORDS + 1


def test_every_topic_is_listed_where_none_is_named(store: ObjectStore) -> None:
    store.reset()
    reader = read_arrow("bucket/logs", filesystem=store.fsspec_filesystem())
    assert store.requests["list"] == 1 + CHOSEN + OTHERS
    assert reader.read_all().num_rows == (CHOSEN + OTHERS) * 2 * RECORDS


def test_a_topic_that_is_not_there_is_told_with_those_that_are(store: ObjectStore) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=r"nothing.*chosen.*other"):
        read_arrow(
            "bucket/logs", filesystem=store.fsspec_filesystem(), subscribe=["chosen", "nothing"]
        )

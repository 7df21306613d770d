"""What reads of a log directory in a store of objects cost: requests, counted."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import UnknownTopicOrPartitionError
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.object_store import ObjectStore

CHOSEN = 3
OTHERS = 20
RECORDS = 10


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    folder: Path = tmp_path_factory.mktemp("far")
    builder = LogBuilder(folder / "logs")
    batches = [
        v2_batch([RecordSpec(value=b"x")] * RECORDS, base_offset=RECORDS * it) for it in (0, 1)
    ]
    for topic, count in (("chosen", CHOSEN), ("other", OTHERS)):
        for partition in range(count):
            builder.partition(topic, partition, [[batch] for batch in batches])
    return uploaded(folder)


def uploaded(folder: Path) -> ObjectStore:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return ObjectStore({f"bucket/{it.relative_to(folder)}": it.read_bytes() for it in files})


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


def test_small_segments_are_fetched_side_by_side(tmp_path: Path) -> None:
    segments, together = 40, threading.Barrier(8)
    batch = v2_batch([RecordSpec(value=b"x")] * RECORDS)
    logs = [[struct.pack(">q", it * RECORDS) + batch[8:]] for it in range(segments)]
    LogBuilder(tmp_path / "logs").partition("t", 0, logs)
    store = uploaded(tmp_path)
    waiting = {f"bucket/logs/t-0/{it * RECORDS:020d}.log" for it in range(1, 9)}
    read = store.read

    def read_with_others(path: str, position: int, length: int | None) -> bytes:
        if path in waiting:
            together.wait(timeout=60)
        return read(path, position, length)

    store.read = read_with_others  # type: ignore[method-assign]
    reader = read_arrow("bucket/logs", filesystem=store.fsspec_filesystem())
    assert reader.read_all().num_rows == segments * RECORDS
    reads = [path for path, _, _ in store.reads if path.endswith(".log")]
    # Each once, and the last one when the end of the log was looked for.
    assert len(reads) == segments + 1


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

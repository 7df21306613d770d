"""What reads of a log directory in a store of objects cost: requests, counted."""

from __future__ import annotations

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

"""The table of Kafka's own topics: a made-up one is kept from writers, cleaners and patterns."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog import open_log
from spark_segmentlog.errors import UnsafeTargetError
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import TopicRetention
from spark_segmentlog.query.read_options import View
from spark_segmentlog.record.system.records import SystemRecord, read_system_record
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS, InternalTopic
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.running import batches, objects

NAME = "__made_up"


@pytest.fixture
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = InternalTopic(name=NAME, holds="nothing", has_keys=False)
    monkeypatch.setitem(INTERNAL_TOPICS, NAME, topic)


@pytest.mark.usefixtures("_made_up")
def test_an_added_topic_is_written_and_cleaned_by_its_broker_alone(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition(NAME, 0, [batches(1)])
    with open_log(tmp_path) as log, pytest.raises(UnsafeTargetError, match="never written"):
        log.create_topic(NAME, 1)
    with pytest.raises(UnsafeTargetError, match="by its broker alone"):
        apply_retention([str(tmp_path)], [NAME], TopicRetention(retention_ms=1), 10)


@pytest.mark.usefixtures("_made_up")
def test_records_of_an_added_topic_are_decoded(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition(NAME, 0, [batches(1)])
    rows = objects("dump", "--decode", tmp_path)
    assert [row["decoded"]["reason"] for row in rows if row["type"] == "record"] == [
        "frame version 118 is not known, 1 is"
    ]
    found = read_system_record(NAME, None, b"\x01\x05\x00")
    assert found == SystemRecord(type_id=5, version=0, reason="record type 5 is not known")


def test_each_view_of_a_topic_reads_that_topic() -> None:
    of_topics = {view.value: view.system_topic for view in View if view.system_topic is not None}
    assert of_topics == {topic.view: topic.name for topic in INTERNAL_TOPICS.values() if topic.view}
    assert len(of_topics) == 4

"""Records of a broker's own topics are what their readers take them for."""

from __future__ import annotations

from spark_segmentlog.record.system.records import read_system_record
from spark_segmentlog.record.system.topics import CONSUMER_OFFSETS
from spark_segmentlog.testing.system_records import offset_commit


def test_a_commit_is_read_with_its_offset_and_metadata() -> None:
    record = offset_commit("billing", "orders", 3, 42, metadata="m", timestamp_ms=7)
    read = read_system_record(CONSUMER_OFFSETS, record.key, record.value)
    assert (read.key or {}).items() >= {
        "group": "billing",
        "topic": "orders",
        "partition": 3,
    }.items()
    assert (read.value or {}).items() >= {
        "offset": 42,
        "metadata": "m",
        "commitTimestamp": 7,
    }.items()
    assert record.timestamp_ms == 7


def test_what_takes_a_commit_back_has_its_key_alone() -> None:
    record = offset_commit("billing", "orders", 3, None)
    assert record.key == offset_commit("billing", "orders", 3, 1).key
    assert record.value is None

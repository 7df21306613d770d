from __future__ import annotations

import pytest

from spark_segmentlog.errors import NotALogDirectoryError
from spark_segmentlog.log.names import (
    TopicPartition,
    find_base_offset,
    find_base_offsets,
    find_left_topic_partition,
    find_topic_partition,
    parse_partition_directory_name,
    segment_file_name,
)


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("audit.events-0", "audit.events", 0),
        ("audit-events-0", "audit-events", 0),
        ("my-topic-2-10", "my-topic-2", 10),
        ("a-0", "a", 0),
        ("my.topic.v1-3", "my.topic.v1", 3),
        ("__consumer_offsets-49", "__consumer_offsets", 49),
        ("t--1", "t-", 1),
    ],
)
def test_a_partition_directory_is_split_at_its_last_dash(
    name: str, topic: str, partition: int
) -> None:
    assert find_topic_partition(name) == TopicPartition(topic, partition)


@pytest.mark.parametrize(
    "name",
    [
        "topic",
        "topic-",
        "-0",
        "topic-x",
        "topic-01",
        "topic-2147483648",
        "topic-\u0663",
        "to pic-0",
        ".-0",
        "..-1",
        "x" * 250 + "-0",
        "t-0.0a1b2c-delete",
        "t-1.0a1b2c-future",
        "t-2.0a1b2c-stray",
        ".segmentlog-commit",
    ],
)
def test_other_directories_are_no_partitions(name: str) -> None:
    assert find_topic_partition(name) is None


def test_a_name_that_must_be_a_partition_says_what_it_should_look_like() -> None:
    with pytest.raises(NotALogDirectoryError, match=r"'lost\+found'.*as in orders-0"):
        parse_partition_directory_name("lost+found")


@pytest.mark.parametrize("suffix", ["-delete", "-stray"])
def test_a_directory_that_a_broker_has_left_still_tells_its_partition(suffix: str) -> None:
    name = f"my.topic-7.d2a5a35c4e1247d0a0ffcbb9e3f5a3a0{suffix}"
    assert find_left_topic_partition(name) == TopicPartition("my.topic", 7)
    assert find_left_topic_partition("my.topic-7") is None
    assert find_left_topic_partition(f"my.topic-7{suffix}") is None


def test_a_directory_to_come_has_not_been_left() -> None:
    name = "my.topic-7.d2a5a35c4e1247d0a0ffcbb9e3f5a3a0-future"
    assert find_left_topic_partition(name) is None


def test_a_base_offset_is_read_from_twenty_digits_and_nothing_else() -> None:
    assert segment_file_name(42) == "00000000000000000042.log"
    assert find_base_offset("00000000000000000042.log") == 42
    assert find_base_offset("00000000000000000042.index") is None
    assert find_base_offset("00000000000000000042.log.deleted") is None
    assert find_base_offset("0000000000000000004x.log") is None
    assert find_base_offset("99999999999999999999.log") is None


def test_partitions_sort_by_number_not_by_text() -> None:
    names = [TopicPartition("t", 10), TopicPartition("t", 9), TopicPartition("a", 11)]
    assert [str(name) for name in sorted(names)] == ["a-11", "t-9", "t-10"]


def test_offsets_in_the_names_of_files_of_a_suffix_are_ascending() -> None:
    names = [f"{5:020d}.log", f"{0:020d}.log", f"{7:020d}.index", "x.log", f"{9:020d}.log.deleted"]
    assert find_base_offsets(names) == [0, 5]
    assert find_base_offsets(names, ".index") == [7]

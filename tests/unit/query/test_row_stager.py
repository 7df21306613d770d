"""Rows of a task: to which topic and partition they go, and how."""

from __future__ import annotations

import pyarrow as pa

from tests.support.plain_partitioner import partition_for_key
from tests.support.sink import (
    Sink,
    rows,
    values,
)


def test_text_of_any_width_and_names_of_any_case_are_taken(sink: Sink) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["\u30ad", None], pa.large_string()),
            pa.array([b"1", b"2"], pa.large_binary()),
            pa.array(["t", "t"], pa.large_string()),
        ],
        names=["KEY", "Value", "ToPiC"],
    )
    sink.save(batch)
    assert sink.column("key") == ["\u30ad".encode(), None]
    assert sink.column("value") == [b"1", b"2"]


def test_rows_that_are_slices_of_others_are_taken(sink: Sink) -> None:
    batch = rows(
        key=[b"%d" % place for place in range(10)],
        value=[b"v%d" % place for place in range(10)],
        topic=["a", "b"] * 5,
        headers=[[{"key": f"h{place}", "value": b""}] for place in range(10)],
    )
    sink.save([batch.slice(3, 4), batch.slice(9, 1)])
    read = sink.read(include_headers=True)
    assert [(row["topic"], row["key"], row["headers"][0]["key"]) for row in read] == [
        ("a", b"4", "h4"),
        ("a", b"6", "h6"),
        ("b", b"3", "h3"),
        ("b", b"5", "h5"),
        ("b", b"9", "h9"),
    ]


def test_rows_keep_their_order_within_a_task_and_tasks_theirs(sink: Sink) -> None:
    tasks = [
        [values(700, start=1000 * task, prefix=""), values(300, start=1000 * task + 700, prefix="")]
        for task in range(3)
    ]
    sink.save(*tasks, topic="t", num_partitions=2)
    for partition in range(2):
        got = [int(value) for value in sink.column("value", assign={"t": [partition]})]
        assert got == sorted(got)
        assert len(got) == 1500
        offsets = sink.column("offset", assign={"t": [partition]})
        assert offsets == list(range(1500))


def test_keys_go_where_a_java_producer_sends_them(sink: Sink) -> None:
    keys = [b"21", b"foobar", b"a-little-bit-long-string", b"100:48069"]
    sink.save(rows(key=keys, value=keys), topic="t", num_partitions=12)
    assert dict(zip(sink.column("key"), sink.column("partition"), strict=True)) == {
        b"21": 0,
        b"foobar": 6,
        b"a-little-bit-long-string": 8,
        b"100:48069": 9,
    }


def test_an_explicit_partition_comes_before_the_key(sink: Sink) -> None:
    key = b"21"
    sink.save(
        rows(key=[key] * 3, value=[b"a", b"b", b"c"], partition=[2, None, 1]),
        topic="t",
        num_partitions=3,
    )
    assert partition_for_key(key, 3) == 0
    assert [(row["partition"], row["value"]) for row in sink.read()] == [
        (0, b"b"),
        (1, b"c"),
        (2, b"a"),
    ]


def test_rows_without_a_key_are_spread_over_partitions_and_tasks(sink: Sink) -> None:
    sink.save(*[values(1) for _ in range(8)], topic="t", num_partitions=4)
    assert sink.column("partition") == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_topic_option_comes_before_the_column(sink: Sink) -> None:
    sink.save(rows(value=[b"a", b"b"], topic=["u", None]), topic="t")
    assert sink.column("topic") == ["t", "t"]


def test_rows_go_to_the_topics_of_their_column(sink: Sink) -> None:
    topics = [f"t{place % 5}" for place in range(40)]
    batch = rows(value=[b"%02d" % place for place in range(40)], topic=topics)
    sink.save([batch, batch], num_partitions=2)
    for topic in set(topics):
        expected = [b"%02d" % place for place in range(40) if topics[place] == topic]
        assert sorted(sink.column("value", subscribe=topic)) == sorted(expected * 2)

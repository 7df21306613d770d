"""Tasks, streams, lookups and views over local and remote segments."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from spark_segmentlog.query.options import keywords_to_options, parse_read_options
from spark_segmentlog.query.planning import EVERYTHING, RowBounds
from spark_segmentlog.query.read_plan import plan_splits
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest, Split, read_split
from spark_segmentlog.query.stream_planner import StreamPlanner
from spark_segmentlog.query.stream_splits import read_stream_split
from tests.support.broker_data import ISOLATION_LEVELS
from tests.support.store_data import (
    STORES,
    Key,
    Store,
    as_rows,
    options_of,
    read_rows,
    truth,
)

OpenStore = Callable[[str], Store]


def tasks(
    store: Store, bounds: RowBounds = EVERYTHING, **options: Any
) -> tuple[list[Split], ReadRequest]:
    given = keywords_to_options(store.log_directory, options_of(store, **options))
    parsed = parse_read_options(given)
    request = ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
    return plan_splits(parsed, bounds), request.narrowed(bounds)


def run(splits: list[Split], request: ReadRequest) -> dict[Key, Any]:
    """Read splits as tasks do: each in a process that knows nothing but its bytes."""
    rows: dict[Key, Any] = {}
    for split in splits:
        for batch in read_split(pickle.loads(pickle.dumps(split)), request):
            for row in as_rows(batch):
                key = row["topic"], row["partition"], row["offset"]
                assert key not in rows
                rows[key] = (row["timestamp"], row["timestampType"], row["key"], row["value"])
    return rows


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("name", ["local", "aiven-zstd-aes"])
def test_a_task_for_each_segment(open_store: OpenStore, name: str, isolation_level: str) -> None:
    store = open_store(name)
    splits, request = tasks(store, kafka_isolation_level=isolation_level)
    assert all(len(split) == 1 and len(split[0].segments) == 1 for split in splits)
    tiers = [split[0].segments[0].tier for split in splits]
    assert min(tiers.count("local"), tiers.count("remote")) > 10
    assert run(splits, request) == truth(store, isolation_level)


@pytest.mark.parametrize("options", [{"min_partitions": 300}, {"max_partition_bytes": 3000}])
@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
def test_tasks_that_begin_inside_segments(
    open_store: OpenStore, options: dict[str, Any], isolation_level: str
) -> None:
    store = open_store("aiven-zstd")
    splits, request = tasks(store, kafka_isolation_level=isolation_level, **options)
    assert run(splits, request) == truth(store, isolation_level)


@pytest.mark.parametrize("name", STORES)
def test_offsets_and_times_narrow_the_segments_that_are_read(
    open_store: OpenStore, name: str
) -> None:
    store = open_store(name)
    whole = truth(store)
    everything, _ = tasks(store)
    times = sorted(values[0] for values in whole.values())
    middle = times[len(times) // 2]
    for bounds, is_wanted in (
        (RowBounds(start_offset=90, end_offset=95), lambda key, _: 90 <= key[2] < 95),
        (RowBounds(min_timestamp_ms=middle), lambda _, values: values[0] >= middle),
    ):
        splits, request = tasks(store, bounds)
        assert len(splits) < len(everything)
        assert run(splits, request) == {
            key: values for key, values in whole.items() if is_wanted(key, values)
        }


@pytest.mark.parametrize("name", STORES)
def test_starting_timestamps_are_found_in_remote_segments(open_store: OpenStore, name: str) -> None:
    store = open_store(name)
    whole = truth(store)
    for topic in ("t.none", "t.order", "t.append"):
        of_topic = {key: values for key, values in whole.items() if key[0] == topic}
        timestamp = sorted(values[0] for values in of_topic.values())[len(of_topic) // 3]
        first = {
            partition: min(
                key[2]
                for key, values in of_topic.items()
                if key[1] == partition and values[0] >= timestamp
            )
            for partition in (0, 1)
        }
        rows = read_rows(
            store.log_directory,
            starting_timestamp=timestamp,
            **options_of(store, subscribe=topic),
        )
        assert rows.keys() == {key for key in of_topic if key[2] >= first[key[1]]}


@pytest.mark.parametrize("name", ["aiven-plain", "aiven-zstd-aes"])
def test_a_stream_goes_from_the_remote_tier_on_into_the_local_one(
    open_store: OpenStore, name: str
) -> None:
    store = open_store(name)
    given = options_of(store, starting_offsets="earliest")
    given |= {"kafka_isolation_level": "read_committed"}
    options = keywords_to_options(store.log_directory, given)
    options["maxOffsetsPerTrigger"] = "200"
    parsed = parse_read_options(options, streaming=True)
    planner = StreamPlanner(parsed)
    request = ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
    rows: list[Key] = []
    start = planner.initial_offset()
    planner.latest_offset(start, planner.limits)
    batches = 0
    while (end := planner.latest_offset(start, planner.limits)) != start:
        for split in planner.plan(start, end):
            for batch in read_stream_split(pickle.loads(pickle.dumps(split)), request):
                rows += [
                    (as_row["topic"], as_row["partition"], as_row["offset"])
                    for as_row in as_rows(batch)
                ]
        start = end
        batches += 1
    assert batches > 10
    assert len(rows) == len(set(rows))
    assert set(rows) == truth(store, "read_committed").keys()

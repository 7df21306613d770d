"""Tasks, streams, lookups and views over local and remote segments."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import DataLossError, OptionValueError, RemoteStorageError
from spark_segmentlog.query.options import keywords_to_options, parse_read_options
from spark_segmentlog.query.planning import EVERYTHING, RowBounds
from spark_segmentlog.query.read_plan import plan_splits
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest, Split, read_split
from spark_segmentlog.query.stream_planner import StreamPlanner
from spark_segmentlog.query.stream_splits import read_stream_split
from tests.support.broker_data import ISOLATION_LEVELS
from tests.support.store_data import STORES, TIERED_TOPICS, Key, Store, as_rows, read_rows

OpenStore = Callable[[str], Store]


def options_of(store: Store, **options: Any) -> dict[str, Any]:
    given = {"remote_storage": store.remote, "subscribe_pattern": TIERED_TOPICS, **store.options}
    given |= options
    if "subscribe" in given or "assign" in given:
        del given["subscribe_pattern"]
    return given


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


def truth(store: Store, isolation_level: str = "read_uncommitted") -> dict[Key, Any]:
    return {key: values[:4] for key, values in store.truth(isolation_level).items()}


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
                rows += [(it["topic"], it["partition"], it["offset"]) for it in as_rows(batch)]
        start = end
        batches += 1
    assert batches > 10
    assert len(rows) == len(set(rows))
    assert set(rows) == truth(store, "read_committed").keys()


def test_the_view_of_segments_names_tiers_and_objects(open_store: OpenStore) -> None:
    store = open_store("aiven-zstd")
    rows = read_arrow(
        store.log_directory, view="segments", **options_of(store, subscribe="t.tx")
    ).read_all()
    found = {(it["partition"], it["baseOffset"]): it for it in rows.to_pylist()}
    assert {it["tier"] for it in found.values()} == {"local", "remote"}
    for it in found.values():
        is_remote = it["tier"] == "remote"
        assert Path(it["path"]).is_relative_to(store.remote if is_remote else store.log_directory)
        assert Path(it["path"]).exists()
    assert sum(it["abortedTransactions"] for it in found.values()) > 20


@pytest.mark.parametrize("view", ["batches", "transactions"])
def test_views_of_remote_segments_are_those_of_the_restored_ones(
    open_store: OpenStore, view: str
) -> None:
    plain, encrypted = open_store("local"), open_store("aiven-zstd-aes")
    counts = [
        read_arrow(it.log_directory, view=view, **options_of(it, subscribe="t.none")).read_all()
        for it in (plain, encrypted)
    ]
    assert counts[0].num_rows == counts[1].num_rows


# What is not there


@pytest.fixture
def damaged(own_store: OpenStore) -> tuple[Store, Path]:
    """A store, and the second segment of a partition in it."""
    store = own_store("aiven-plain")
    manifests = sorted(Path(store.remote).glob("t.lz4-*/0/*.rsm-manifest"))
    return store, manifests[1]


def test_a_segment_that_is_gone_is_data_loss(damaged: tuple[Store, Path]) -> None:
    store, manifest = damaged
    log = manifest.with_name(manifest.name.replace(".rsm-manifest", ".log"))
    log.unlink()
    with pytest.raises(DataLossError, match=r"of topic partition t\.lz4-0: they are gone"):
        read_rows(store.log_directory, **options_of(store, subscribe="t.lz4"))


def test_a_segment_that_is_gone_is_left_out_where_that_is_asked_for(
    damaged: tuple[Store, Path], caplog: pytest.LogCaptureFixture
) -> None:
    store, manifest = damaged
    first = int(manifest.name[:20])
    behind = int(sorted(Path(manifest.parent).glob("*.log"))[2].name[:20])
    manifest.unlink()
    with caplog.at_level(logging.WARNING):
        rows = read_rows(
            store.log_directory, fail_on_data_loss=False, **options_of(store, subscribe="t.lz4")
        )
    whole = {key for key in truth(store) if key[0] == "t.lz4"}
    assert rows.keys() == {key for key in whole if key[1] == 1 or not first <= key[2] < behind}
    assert f"offset [{first}, {behind}) of topic partition t.lz4-0" in caplog.text
    assert manifest.name.replace(".rsm-manifest", ".log") in caplog.text


def test_a_store_of_no_known_layout_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    with pytest.raises(RemoteStorageError, match=r"no remote segments of a known layout.*aiven"):
        read_rows(open_store("local").log_directory, remote_storage=str(tmp_path))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"remote_storage": "[1]"}, "JSON list of paths"),
        ({"remote_storage_layout": "odd"}, "legal are local, aiven"),
        ({"remote_storage_keys": "[]"}, "id to private key file"),
        ({"remote_storage_topic_ids": "short"}, "22 characters"),
    ],
)
def test_values_of_the_options(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionValueError, match=reason):
        parse_read_options(keywords_to_options("/log", options))

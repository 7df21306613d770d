"""Every record of four stores, as the broker's consumers got them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.errors import DataLossError, OptionValueError
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from tests.support.broker_data import ISOLATION_LEVELS
from tests.support.store_data import (
    LAYOUTS,
    STORES,
    TIERED_TOPICS,
    Key,
    Store,
    read_rows,
)

OpenStore = Callable[[str], Store]


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("name", STORES)
def test_local_and_remote_are_one_log(
    open_store: OpenStore, name: str, isolation_level: str
) -> None:
    store = open_store(name)
    rows = read_rows(
        store.log_directory,
        remote_storage=store.remote,
        subscribe_pattern=TIERED_TOPICS,
        kafka_isolation_level=isolation_level,
        **store.options,
    )
    assert rows == store.truth(isolation_level)


@pytest.mark.parametrize("name", STORES)
def test_the_store_alone_has_what_was_uploaded(open_store: OpenStore, name: str) -> None:
    store = open_store(name)
    # Deletes were refused at the end of one: what lies below the holes was below the log's start.
    rows = read_rows(store.remote, fail_on_data_loss=False, **store.options)
    assert _uploaded(store, rows) == _uploaded(store, store.truth("read_uncommitted"))


@pytest.mark.parametrize("name", STORES)
def test_the_store_alone_holds_back_what_it_has_no_marker_of(
    open_store: OpenStore, name: str
) -> None:
    store = open_store(name)
    options = {"fail_on_data_loss": False, **store.options}
    rows = read_rows(store.remote, kafka_isolation_level="read_committed", **options)
    truth = _uploaded(store, store.truth("read_committed"))
    rows = _uploaded(store, rows)
    held_back = truth.keys() - rows.keys()
    assert rows == {key: values for key, values in truth.items() if key not in held_back}
    ends = {(topic, partition) for topic, partition, _ in held_back}
    assert ends == {("t.tx", 1)}
    assert min(held_back) > max(key for key in rows if key[:2] == ("t.tx", 1))


def test_a_hole_in_the_store_is_data_loss(open_store: OpenStore) -> None:
    with pytest.raises(DataLossError, match=r"\[45, 67\) of topic partition t.expired-0"):
        read_rows(open_store("aiven-zstd").remote, subscribe="t.expired")


@pytest.mark.parametrize("name", STORES)
def test_a_layout_that_is_named_is_not_looked_for(open_store: OpenStore, name: str) -> None:
    store = open_store(name)
    options = {"remote_storage_layout": LAYOUTS[name], "subscribe": "t.none", **store.options}
    alone = read_rows(store.remote, **options)
    beside = read_rows(store.log_directory, remote_storage=[store.remote], **options)
    assert alone
    assert beside.keys() > alone.keys()


def test_the_metadata_name_the_prefix_below_a_bucket(open_store: OpenStore) -> None:
    store = open_store("aiven-zstd")
    rows = read_rows(
        store.log_directory,
        remote_storage=str(store.folder / "remote"),
        remote_storage_layout="aiven",
        subscribe_pattern=TIERED_TOPICS,
    )
    assert rows == store.truth("read_uncommitted")


def test_a_prefix_may_end_inside_a_name(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store("aiven-plain")
    for folder in Path(store.remote).iterdir():
        (tmp_path / f"west.{folder.name}").symlink_to(folder)
        (tmp_path / f"east.{folder.name}").symlink_to(folder)
    assert read_rows(f"{tmp_path}/west.", subscribe="t.lz4") == read_rows(
        store.remote, subscribe="t.lz4"
    )


def test_a_log_is_read_over_several_stores(own_store: OpenStore, tmp_path: Path) -> None:
    store = own_store("aiven-plain")
    other = tmp_path / "other"
    for folder in sorted(Path(store.remote).glob("t.*/0")):
        (other / folder.parent.name).mkdir(parents=True)
        folder.rename(other / folder.parent.name / "0")
    rows = read_rows(
        store.log_directory,
        remote_storage=[store.remote, str(other)],
        subscribe_pattern=TIERED_TOPICS,
    )
    assert rows == store.truth("read_uncommitted")


@pytest.mark.parametrize("name", STORES)
def test_without_metadata_the_store_decides(own_store: OpenStore, name: str) -> None:
    store = own_store(name)
    for folder in Path(store.log_directory).glob("__remote_log_metadata-*"):
        folder.rename(store.folder / folder.name)
    rows = read_rows(
        store.log_directory,
        remote_storage=store.remote,
        subscribe_pattern=TIERED_TOPICS,
        **store.options,
    )
    assert rows == store.truth("read_uncommitted")


def test_a_topic_of_a_name_that_another_has_is_asked_for_by_its_id(own_store: OpenStore) -> None:
    store = own_store("aiven-plain")
    folder = next(Path(store.remote).glob("t.lz4-*"))
    other_id = "A" * 21 + "Q"
    folder.with_name(f"t.none-{other_id}").symlink_to(folder)
    with pytest.raises(OptionValueError, match=f"2 topics named 't.none'.*{other_id}"):
        read_rows(store.remote, subscribe="t.none")
    found = read_rows(store.remote, subscribe="t.none", remote_storage_topic_ids=other_id)
    lz4 = read_rows(store.remote, subscribe="t.lz4", remote_storage_topic_ids=other_id)
    assert {key[1:] for key in found} == {key[1:] for key in lz4}


def test_a_topic_that_the_directory_lacks_is_read_by_its_id(own_store: OpenStore) -> None:
    store = own_store("local")
    topic_id = store.offsets()["t.zstd-0"]["topicId"]
    for folder in Path(store.log_directory).glob("t.zstd-*"):
        folder.rename(store.folder / folder.name)
    options = {"remote_storage": store.remote, "subscribe_pattern": TIERED_TOPICS}
    assert not any(key[0] == "t.zstd" for key in read_rows(store.log_directory, **options))
    rows = read_rows(store.log_directory, remote_storage_topic_ids=topic_id, **options)
    truth = {key: values for key, values in rows.items() if key[0] == "t.zstd"}
    wanted = _uploaded(store, store.truth("read_uncommitted"))
    assert truth == {key: values for key, values in wanted.items() if key[0] == "t.zstd"}


@pytest.mark.parametrize("name", STORES)
def test_offsets_are_those_that_the_broker_tells(open_store: OpenStore, name: str) -> None:
    store = open_store(name)
    manager = LogManager.open(
        store.log_directory, remote=RemoteOptions(uris=(store.remote,), keys=store.key_files)
    )
    bounds = {
        str(partition): (log.log_start_offset, log.log_end_offset, log.last_stable_offset())
        for partition, log in manager.topic_partitions.items()
        if partition.topic.startswith("t.")
    }
    told = {
        name: (offsets["earliest"], offsets["latest"], offsets["lastStable"])
        for name, offsets in store.offsets().items()
        if name.startswith("t.")
    }
    assert bounds == told


def _uploaded(store: Store, rows: dict[Key, tuple[object, ...]]) -> dict[Key, tuple[object, ...]]:
    """Leave out what lies below a log's start, or was never uploaded."""
    offsets = store.offsets()

    def is_uploaded(key: Key) -> bool:
        told = offsets.get(f"{key[0]}-{key[1]}")
        return told is not None and told["earliest"] <= key[2] <= told["latestTiered"]

    return {key: values for key, values in rows.items() if is_uploaded(key)}

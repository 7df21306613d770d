"""A local log directory made of a store: the rows, offsets and epochs of the whole log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.errors import DataLossError, RemoteStorageError, UnsafeTargetError
from spark_segmentlog.log.formats.checkpoints import read_leader_epochs, read_partition_metadata
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.upkeep.restore import restore
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.broker_data import ISOLATION_LEVELS
from tests.support.running import run
from tests.support.store_data import STORES, Store, read_rows

OpenStore = Callable[[str], Store]


def remote_of(store: Store) -> RemoteOptions:
    return RemoteOptions(uris=(store.remote,), keys=store.key_files)


@pytest.mark.parametrize("name", STORES)
def test_what_is_restored_is_the_whole_log(
    open_store: OpenStore, tmp_path: Path, name: str
) -> None:
    store = open_store(name)
    target = tmp_path / "restored"
    restored = restore(store.log_directory, str(target), remote=remote_of(store))
    for level in ISOLATION_LEVELS:
        assert read_rows(str(target), kafka_isolation_level=level) == store.truth(level)
    told = store.offsets()
    for it in restored:
        offsets = told[str(it.topic_partition)]
        assert (it.log_start_offset, it.log_end_offset) == (offsets["earliest"], offsets["latest"])
        metadata = read_partition_metadata(LOCAL, it.directory)
        assert metadata is not None
        assert metadata.topic_id == offsets["topicId"]
    assert [it for it in verify(str(target), deep=True) if not it.is_harmless] == []
    assert not list(target.glob("**/*.tmp"))


def test_a_store_by_itself_is_restored(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store("aiven-plain")
    target = tmp_path / "restored"
    target.mkdir()
    restore(store.remote, str(target), topics=["t.tx", "t.order"])
    rows = read_rows(str(target))
    assert rows == {
        key: values
        for key, values in read_rows(store.remote).items()
        if key[0] in ("t.tx", "t.order")
    }
    epochs = read_leader_epochs(LOCAL, str(target / "t.order-0"))
    assert len(epochs) > 1
    assert [it for it in verify(str(target), deep=True) if not it.is_harmless] == []


def test_topics_get_the_ids_of_the_cluster_they_are_meant_for(
    open_store: OpenStore, tmp_path: Path
) -> None:
    other = "B" * 21 + "A"
    LogBuilder(tmp_path / "cluster").partition("t.none", 0, topic_id=other)
    store = open_store("local")
    restore(
        store.remote,
        str(tmp_path / "restored"),
        topics=["t.none"],
        topic_ids_of=str(tmp_path / "cluster"),
    )
    metadata = read_partition_metadata(LOCAL, str(tmp_path / "restored" / "t.none-1"))
    assert metadata is not None
    assert metadata.topic_id == other


def test_what_is_missing_or_changed_is_not_restored(own_store: OpenStore, tmp_path: Path) -> None:
    store = own_store("aiven-zstd-aes")
    logs = sorted(Path(store.remote).glob("t.lz4-*/0/*.log"))
    data = bytearray(logs[1].read_bytes())
    data[40] ^= 1
    logs[1].write_bytes(data)
    with pytest.raises(RemoteStorageError, match="chunk 0 of "):
        restore(store.log_directory, str(tmp_path / "a"), remote=remote_of(store))
    logs[1].unlink()
    with pytest.raises(DataLossError, match=r"of topic partition t\.lz4-0"):
        restore(store.log_directory, str(tmp_path / "b"), remote=remote_of(store))
    assert not (tmp_path / "b").exists()
    with pytest.raises(UnsafeTargetError, match=r"b\.restoring is left of a restore"):
        restore(store.log_directory, str(tmp_path / "b"), remote=remote_of(store))


def test_a_directory_that_holds_something_is_no_target(
    open_store: OpenStore, tmp_path: Path
) -> None:
    (tmp_path / "precious.txt").write_text("kept")
    with pytest.raises(UnsafeTargetError, match="holds something"):
        restore(open_store("local").remote, str(tmp_path))
    assert [it.name for it in tmp_path.iterdir()] == ["precious.txt"]


def test_the_verb(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store("aiven-zstd-aes")
    keys = [part for it in store.keys.items() for part in ("--remote-key", *it)]
    ran = run(
        "restore",
        store.log_directory,
        *("--to", tmp_path / "restored", "--topic", "t.tx", "--remote-storage", store.remote),
        *keys,
    )
    assert [line.split()[:2] for line in ran.lines[1:]] == [["t.tx", "0"], ["t.tx", "1"]]
    assert read_rows(str(tmp_path / "restored")).keys() == {
        key for key in store.truth("read_uncommitted") if key[0] == "t.tx"
    }
    assert run("restore", store.remote, "--to", tmp_path, *keys).exit_code == 2

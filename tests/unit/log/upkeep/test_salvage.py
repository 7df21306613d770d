"""A log directory made of all that is good: of one log, of several replicas, of a store."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import (
    RemoteStorageError,
    SegmentLogError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.formats.checkpoints import (
    LeaderEpoch,
    read_leader_epochs,
    read_topic_id,
)
from spark_segmentlog.log.formats.producer_snapshot import parse_producer_snapshot
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.upkeep.salvage import STRADDLING, salvage
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, segment_file_name, v2_batch
from tests.support.broker_data import ISOLATION_LEVELS, unpack
from tests.support.running import contents, flip
from tests.support.store_data import STORES, Store, read_rows

OpenStore = Callable[[str], Store]


def remote_of(store: Store) -> RemoteOptions:
    return RemoteOptions(uris=(store.remote,), keys=store.key_files)


@pytest.mark.parametrize("name", STORES)
def test_what_is_salvaged_is_the_whole_log(
    open_store: OpenStore, tmp_path: Path, name: str
) -> None:
    store = open_store(name)
    target = tmp_path / "salvaged"
    salvaged = salvage(store.log_directory, str(target), remote=remote_of(store))
    for level in ISOLATION_LEVELS:
        assert read_rows(str(target), kafka_isolation_level=level) == store.truth(level)
    told = store.offsets()
    for partition in salvaged:
        offsets = told[str(partition.topic_partition)]
        assert (partition.log_start_offset, partition.log_end_offset) == (
            offsets["earliest"],
            offsets["latest"],
        )
        assert read_topic_id(LOCAL, partition.directory) == offsets["topicId"]
    assert [finding for finding in verify(str(target), deep=True) if not finding.is_harmless] == []
    assert not list(target.glob("**/*.tmp"))


def test_a_store_by_itself_is_salvaged(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store("aiven-plain")
    target = tmp_path / "salvaged"
    target.mkdir()
    salvage(store.remote, str(target), topics=["t.tx", "t.order"])
    rows = read_rows(str(target))
    assert rows == {
        key: values
        for key, values in read_rows(store.remote).items()
        if key[0] in ("t.tx", "t.order")
    }
    epochs = read_leader_epochs(LOCAL, str(target / "t.order-0"))
    assert len(epochs) > 1
    assert [finding for finding in verify(str(target), deep=True) if not finding.is_harmless] == []


def test_topics_get_the_ids_of_the_cluster_they_are_meant_for(
    open_store: OpenStore, tmp_path: Path
) -> None:
    other = "B" * 21 + "A"
    LogBuilder(tmp_path / "cluster").partition("t.none", 0, topic_id=other)
    store = open_store("local")
    salvage(
        store.remote,
        str(tmp_path / "salvaged"),
        topics=["t.none"],
        topic_ids_of=str(tmp_path / "cluster"),
    )
    assert read_topic_id(LOCAL, str(tmp_path / "salvaged" / "t.none-1")) == other


def test_what_a_store_has_lost_is_told_and_the_rest_is_salvaged(
    own_store: OpenStore, tmp_path: Path
) -> None:
    store = own_store("aiven-zstd-aes")
    whole = store.truth("read_uncommitted")
    logs = sorted(Path(store.remote).glob("t.lz4-*/0/*.log"))
    flip(logs[0], 40)
    logs[1].unlink()
    salvaged = salvage(
        store.log_directory, str(tmp_path / "a"), remote=remote_of(store), topics=["t.lz4"]
    )
    (lost,) = salvaged[0].lost
    assert "chunk 0 of " in lost.detail
    assert logs[1].name in lost.detail
    assert salvaged[1].lost == ()
    assert lost.end_offset is not None
    gone = set(range(lost.start_offset, lost.end_offset))
    assert read_rows(str(tmp_path / "a")) == {
        key: row
        for key, row in whole.items()
        if key[0] == "t.lz4" and not (key[1] == 0 and key[2] in gone)
    }


def test_a_store_whose_key_is_missing_is_an_error(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store("aiven-zstd-aes")
    with pytest.raises(RemoteStorageError, match="key"):
        salvage(store.remote, str(tmp_path / "a"), topics=["t.none"])
    assert not (tmp_path / "a").exists()
    with pytest.raises(UnsafeTargetError, match=r"a\.salvaging is left of a salvage"):
        salvage(store.remote, str(tmp_path / "a"), topics=["t.none"])


def test_a_directory_that_holds_something_is_no_target(
    open_store: OpenStore, tmp_path: Path
) -> None:
    (tmp_path / "precious.txt").write_text("kept")
    with pytest.raises(UnsafeTargetError, match="holds something"):
        salvage(open_store("local").remote, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


# Replicas on disk


def one(base_offset: int, *, epoch: int = 0, value: bytes = b"v" * 300) -> bytes:
    record = RecordSpec(value=value, timestamp_ms=1000 + base_offset)
    return v2_batch([record], base_offset=base_offset, partition_leader_epoch=epoch)


def make_replica(path: Path, segments: list[list[bytes]], **options: Any) -> Path:
    log = LogBuilder(path)
    log.partition("t", 0, segments, **options)
    return path


def three_segments(path: Path) -> Path:
    return make_replica(
        path, [[one(number) for number in range(at, at + 20)] for at in (0, 20, 40)]
    )


def values(directory: Path) -> dict[int, bytes | None]:
    return {offset: row[3] for (_, _, offset), row in read_rows(str(directory)).items()}


def damage(path: Path, batch: int) -> None:
    flip(path, batch * len(one(0)) + 100)


def assert_sound(directory: Path) -> None:
    assert [str(finding) for finding in verify(str(directory), deep=True)] == []


def test_a_whole_log_is_copied_byte_for_byte(tmp_path: Path) -> None:
    source = three_segments(tmp_path / "a")
    before = contents(source)
    (salvaged,) = salvage(str(source), str(tmp_path / "new"))
    assert (salvaged.segments, salvaged.lost) == (3, ())
    assert (salvaged.log_start_offset, salvaged.log_end_offset) == (0, 60)
    assert contents(source) == before
    made = contents(tmp_path / "new")
    kept = {name: data for name, data in before.items() if name.endswith((".log", "checkpoint"))}
    assert {name: made[name] for name in kept} == kept
    assert made["t-0/partition.metadata"] == before["t-0/partition.metadata"]
    assert_sound(tmp_path / "new")


def test_a_bad_batch_and_a_lost_segment_leave_gaps_that_are_told(tmp_path: Path) -> None:
    source = three_segments(tmp_path / "a")
    logs = sorted((source / "t-0").glob("*.log"))
    damage(logs[0], 7)
    logs[1].unlink()
    (salvaged,) = salvage(str(source), str(tmp_path / "new"))
    assert [(lost_range.start_offset, lost_range.end_offset) for lost_range in salvaged.lost] == [
        (7, 8),
        (20, 40),
    ]
    assert "position 2" in salvaged.lost[0].detail
    assert f"{logs[1].name} is gone" in salvaged.lost[1].detail
    assert sorted(values(tmp_path / "new")) == [*range(7), *range(8, 20), *range(40, 60)]
    assert_sound(tmp_path / "new")


def test_a_torn_end_is_left_out_and_what_was_promised_beyond_is_told(tmp_path: Path) -> None:
    source = three_segments(tmp_path / "a")
    last = sorted((source / "t-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-50])
    (salvaged,) = salvage(str(source), str(tmp_path / "new"))
    assert (salvaged.log_end_offset, salvaged.lost) == (59, ())
    LogBuilder(source).recovery_points({("t", 0): 62})
    (salvaged,) = salvage(str(source), str(tmp_path / "again"))
    assert [(lost_range.start_offset, lost_range.end_offset) for lost_range in salvaged.lost] == [
        (59, 62)
    ]
    assert_sound(tmp_path / "again")


def test_bad_bytes_up_to_the_end_have_no_known_end(tmp_path: Path) -> None:
    source = three_segments(tmp_path / "a")
    damage(sorted((source / "t-0").glob("*.log"))[-1], 19)
    (salvaged,) = salvage(str(source), str(tmp_path / "new"))
    assert [(lost_range.start_offset, lost_range.end_offset) for lost_range in salvaged.lost] == [
        (59, None)
    ]


def test_one_replica_fills_what_another_has_lost(tmp_path: Path) -> None:
    first, second = three_segments(tmp_path / "a"), three_segments(tmp_path / "b")
    whole = values(first)
    logs = sorted((first / "t-0").glob("*.log"))
    damage(logs[0], 7)
    logs[1].unlink()
    damage(sorted((second / "t-0").glob("*.log"))[0], 3)
    last = sorted((second / "t-0").glob("*.log"))[-1]
    last.write_bytes(b"")
    (salvaged,) = salvage([str(first), f"{second}/t-0"], str(tmp_path / "new"))
    assert salvaged.lost == ()
    assert salvaged.sources == (f"{first}/t-0", f"{second}/t-0")
    assert values(tmp_path / "new") == whole
    assert_sound(tmp_path / "new")


def test_the_newest_leader_epoch_decides_where_replicas_differ(tmp_path: Path) -> None:
    old = make_replica(tmp_path / "old", [[one(number) for number in range(30)]])
    new = make_replica(
        tmp_path / "new",
        [[*map(one, range(20)), *(one(number, epoch=1, value=b"n") for number in (20, 21))]],
        leader_epochs=[(0, 0), (1, 20)],
    )
    damage(next((new / "t-0").glob("*.log")), 4)
    (salvaged,) = salvage([str(old), str(new)], str(tmp_path / "made"))
    found = values(tmp_path / "made")
    assert sorted(found) == list(range(22))
    assert (found[20], found[21]) == (b"n", b"n")
    assert salvaged.lost == ()
    assert read_leader_epochs(LOCAL, salvaged.directory) == [LeaderEpoch(0, 0), LeaderEpoch(1, 20)]
    assert_sound(tmp_path / "made")


def test_batches_of_another_shape_do_not_fill_a_gap_by_half(tmp_path: Path) -> None:
    first = three_segments(tmp_path / "a")
    damage(sorted((first / "t-0").glob("*.log"))[0], 7)
    wide = v2_batch([RecordSpec(value=b"w")] * 4, base_offset=6)
    second = make_replica(tmp_path / "b", [[*map(one, range(6)), wide, *map(one, range(10, 20))]])
    (salvaged,) = salvage([str(first), str(second)], str(tmp_path / "new"))
    assert [(lost_range.start_offset, lost_range.end_offset) for lost_range in salvaged.lost] == [
        (7, 8)
    ]
    assert salvaged.lost[0].detail == STRADDLING
    assert_sound(tmp_path / "new")


def test_a_log_start_within_a_segment_stays_where_it_is(tmp_path: Path) -> None:
    source = three_segments(tmp_path / "a")
    LogBuilder(source).log_start_offsets({("t", 0): 25})
    (salvaged,) = salvage(str(source), str(tmp_path / "new"))
    assert (salvaged.log_start_offset, salvaged.log_end_offset) == (25, 60)
    assert sorted(values(tmp_path / "new")) == list(range(25, 60))
    assert_sound(tmp_path / "new")


def test_a_log_start_after_the_end_is_not_believed(tmp_path: Path) -> None:
    source = three_segments(tmp_path / "a")
    LogBuilder(source).log_start_offsets({("t", 0): 10**12})
    (salvaged,) = salvage(str(source), str(tmp_path / "new"))
    assert (salvaged.log_start_offset, salvaged.log_end_offset) == (0, 60)
    assert sorted(values(tmp_path / "new")) == list(range(60))
    assert_sound(tmp_path / "new")


def test_an_empty_partition_stays_one(tmp_path: Path) -> None:
    source = make_replica(tmp_path / "a", [[]])
    (salvaged,) = salvage(str(source), str(tmp_path / "new"))
    assert (salvaged.segments, salvaged.log_end_offset, salvaged.lost) == (1, 0, ())
    assert_sound(tmp_path / "new")


def test_topics_that_share_a_name_are_not_joined(tmp_path: Path) -> None:
    first = make_replica(tmp_path / "a", [[one(0)]])
    second = make_replica(tmp_path / "b", [[one(0)]], topic_id="B" * 21 + "A")
    with pytest.raises(UnsafeTargetError, match="share a name"):
        salvage([str(first), str(second)], str(tmp_path / "new"))
    assert not (tmp_path / "new.salvaging").exists()


def test_a_brokers_own_topics_are_salvaged_where_they_are_named(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "a").partition("__consumer_offsets", 0, [[one(0)]])
    make_replica(tmp_path / "a", [[one(0)]])
    source = str(tmp_path / "a")
    assert [
        str(partition.topic_partition) for partition in salvage(source, str(tmp_path / "b"))
    ] == ["t-0"]
    named = salvage(source, str(tmp_path / "c"), topics=["__consumer_offsets"])
    by_path = salvage(f"{source}/__consumer_offsets-0", str(tmp_path / "d"))
    assert [str(name.topic_partition) for name in (*named, *by_path)] == [
        "__consumer_offsets-0"
    ] * 2
    with pytest.raises(UnknownTopicOrPartitionError, match="'x' is not there"):
        salvage(source, str(tmp_path / "e"), topics=["x"])


def test_transactions_and_their_producers_are_told_again(tmp_path: Path) -> None:
    log = unpack("kafka-4.3.1-java-transactions", "clean", tmp_path)
    salvaged = salvage(log.log_directories, str(tmp_path / "new"))
    assert {partition.lost for partition in salvaged} == {()}
    for level in ISOLATION_LEVELS:
        found = read_rows(str(tmp_path / "new"), kafka_isolation_level=level)
        assert found == read_rows(log.log_directories, kafka_isolation_level=level)
    assert_sound(tmp_path / "new")
    assert list((tmp_path / "new").glob("*/*.txnindex"))
    for partition in salvaged:
        snapshot = Path(
            partition.directory, segment_file_name(partition.log_end_offset, ".snapshot")
        )
        source = Path(partition.sources[0], snapshot.name)
        assert parse_producer_snapshot(snapshot.read_bytes()) == parse_producer_snapshot(
            source.read_bytes()
        )


@pytest.mark.parametrize("seed", range(12))
def test_sources_of_random_bytes_are_salvaged_or_refused(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    sources = [three_segments(tmp_path / name) for name in ("a", "b")]
    for source in sources:
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            data = bytearray(path.read_bytes())
            for _ in range(chance.randrange(4) if data else 0):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data[: chance.choice([len(data), chance.randrange(len(data) + 1)])])
    before = [contents(source) for source in sources]
    whole = values(three_segments(tmp_path / "c"))
    try:
        (salvaged,) = salvage(list(map(str, sources)), str(tmp_path / "new"))
    except SegmentLogError:
        salvaged = None
    assert [contents(source) for source in sources] == before
    if salvaged is not None:
        assert values(tmp_path / "new").items() <= whole.items()
        assert_sound(tmp_path / "new")

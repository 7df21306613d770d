"""Each point of the recipe for a bulk load, met and missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.errors import PreflightError
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.io.lock import locked
from spark_segmentlog.log.write import adoption
from spark_segmentlog.log.write.adoption import AdoptionPoint, PointState, check_adoption
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.broker_data import unpack
from tests.support.metadata_log import metadata_log, partition, setting, topic
from tests.support.running import contents

MET, MISSING, NOTE = PointState.MET, PointState.MISSING, PointState.NOTE
MakeLog = Callable[..., str]


@pytest.fixture
def broker(tmp_path: Path) -> list[str]:
    """The log directories of a broker that was stopped; topic orders has three partitions."""
    return list(unpack("kafka-4.3.1", "clean", tmp_path).log_directories)


@pytest.fixture
def one_directory(tmp_path: Path) -> MakeLog:
    """Makes a log directory whose cluster has a topic t, with a folder of its id."""

    def make(*replicas: int, folders: int = 1, **settings: str) -> str:
        path = metadata_log(
            tmp_path / "d0",
            topic("t", 1),
            partition(0, 1, *(replicas or (1,))),
            *(setting(2, "t", name.replace("_", "."), value) for name, value in settings.items()),
        )
        for number in range(folders):
            LogBuilder(path).partition("t", number, topic_id="A" * 21 + "Q")
        return path

    return make


def states(name: str, *paths: str) -> dict[str, PointState]:
    return {point.name: point.state for point in check_adoption(name, paths)}


def missing(name: str, *paths: str) -> list[AdoptionPoint]:
    return [point for point in check_adoption(name, paths) if point.state is MISSING]


def test_all_is_met_of_a_stopped_broker_and_nothing_is_written(broker: list[str]) -> None:
    before = [contents(Path(path)) for path in broker]
    found = states("orders", *broker)
    assert found.pop("retention") is NOTE
    assert set(found.values()) == {MET}
    assert len(found) == 11
    assert [contents(Path(path)) for path in broker] == before


def test_a_directory_that_is_not_there_or_not_formatted_is_told(tmp_path: Path) -> None:
    (point,) = check_adoption("t", [str(tmp_path / "absent")])
    assert (point.name, point.state) == ("log directories", MISSING)
    (tmp_path / "empty").mkdir()
    names = [point.name for point in missing("t", str(tmp_path / "empty"))]
    assert names == ["format", "metadata"]


def test_a_broker_that_runs_is_told(broker: list[str]) -> None:
    with locked(broker[:1]):
        (point,) = missing("orders", *broker)
    assert point.name == "stopped"
    assert broker[0] in point.detail
    assert broker[1] not in point.detail
    assert missing("orders", *broker) == []


def test_a_log_directory_that_was_not_named_is_told_wherever_it_lies(
    broker: list[str], tmp_path: Path
) -> None:
    (beside, *_) = (point for point in missing("orders", broker[0]) if point.name == "all log.dirs")
    assert broker[1] in beside.detail
    (tmp_path / "far").mkdir()
    shutil.move(broker[1], tmp_path / "far")
    (far, *_) = (point for point in missing("orders", broker[0]) if point.name == "all log.dirs")
    assert "directory.id " in far.detail


def test_directories_of_two_brokers_are_told(broker: list[str]) -> None:
    path = Path(broker[1], "meta.properties")
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))
    assert "one broker" in [point.name for point in missing("orders", *broker)]


def test_a_topic_that_the_cluster_does_not_know_is_told(broker: list[str]) -> None:
    (point,) = missing("absent", *broker)
    assert (point.name, "--create" in point.detail) == ("topic", True)
    (point,) = missing("__consumer_offsets", *broker)
    assert point.detail.startswith("a broker's own")


def test_several_replicas_are_told(one_directory: MakeLog) -> None:
    path = one_directory(1, 2)
    assert [point.name for point in missing("t", path)] == ["replicas"]


def test_partitions_without_a_folder_or_elsewhere_are_told(one_directory: MakeLog) -> None:
    path = one_directory(folders=0)
    (point,) = missing("t", path)
    assert (point.name, "no folder t-0" in point.detail) == ("partitions", True)
    other = one_directory(7, folders=0)
    assert "t-0 (broker 7)" in missing("t", other)[0].detail


def test_retention_of_the_topic_is_told(one_directory: MakeLog) -> None:
    path = one_directory(retention_ms="-1")
    found = {point.name: point for point in check_adoption("t", [path])}
    assert found["retention"].state is MET
    assert found["retention"].detail == "retention.ms=-1"


def test_folders_that_a_broker_set_aside_are_told(one_directory: MakeLog) -> None:
    path = one_directory()
    LogBuilder(path).partition("t", 0, directory_suffix=".5f0c7a-stray")
    LogBuilder(path).partition("u", 0, directory_suffix=".5f0c7a-stray")
    found = {point.name: point for point in check_adoption("t", [path])}
    assert found["stray folders"].state is NOTE
    assert "t-0.5f0c7a-stray" in found["stray folders"].detail
    assert "u-0" not in found["stray folders"].detail


def test_a_folder_of_another_topic_id_is_what_preflight_tells(one_directory: MakeLog) -> None:
    path = one_directory(folders=0)
    LogBuilder(path).partition("t", 0, topic_id="B" * 21 + "A")
    (point,) = missing("t", path)
    assert (point.name, "topic id" in point.detail) == ("preflight", True)
    assert missing("t", path) != []


def test_files_that_the_broker_could_not_write_are_told(
    one_directory: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(paths: list[str]) -> None:
        raise PreflightError([Finding(kind=FindingKind.OWNER, path=paths[0], detail="not yours")])

    path = one_directory()
    monkeypatch.setattr(adoption, "check_owner", refuse)
    assert [point.name for point in missing("t", path)] == ["owner"]

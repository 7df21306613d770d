"""A broker serves what is good of damaged logs: cut out where it lies, or salvaged elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.salvage import salvage
from spark_segmentlog.log.upkeep.segment_survey import survey_segment
from spark_segmentlog.log.upkeep.verification import verify
from tests.support.broker import Broker, ConsumedRecord
from tests.support.broker_data import ISOLATION_LEVELS, unpack
from tests.support.kafka_jars import KafkaJars
from tests.support.rows import read_rows
from tests.support.running import flip

pytestmark = pytest.mark.interop

PRODUCER = "kafka-4.3.1-java-transactions"
CUT, SALVAGED = TopicPartition("bank", 0), TopicPartition("bank", 1)


def copy_of_log(target: Path) -> list[str]:
    return list(unpack(PRODUCER, "clean", target).log_directories)


def rows_of(log_directories: list[str], level: str = "read_uncommitted") -> list[ConsumedRecord]:
    paths = list(map(Path, log_directories))
    return read_rows(paths, subscribe="bank", kafka_isolation_level=level)["bank"]


def damage(log_directories: list[str], topic_partition: TopicPartition, part: float) -> str:
    """Change a byte in a batch, at a part of the way through a log; gives its directory."""
    log = LogManager.open(log_directories).partition_log(topic_partition)
    segments = list(log.segments)
    segment = segments[int(part * len(segments))]
    positions = survey_segment(segment).positions
    flip(Path(segment.log_path), int(positions[len(positions) // 2]) + 70)
    return log.directory


def test_a_broker_serves_what_is_good_of_damaged_logs(jars: KafkaJars, tmp_path: Path) -> None:
    whole = rows_of(copy_of_log(tmp_path / "whole"))
    mine, others = copy_of_log(tmp_path / "mine"), copy_of_log(tmp_path / "others")
    damage(mine, CUT, 0.5)
    recover(mine, truncate=True, cut_bad_batches=True)
    place = damage(mine, SALVAGED, 0.2)
    other = damage(others, SALVAGED, 0.8)
    (salvaged,) = salvage([place, other], str(tmp_path / "salvaged"))
    assert salvaged.lost == ()
    shutil.rmtree(place)
    shutil.move(salvaged.directory, place)
    Path(place).parent.joinpath(".kafka_cleanshutdown").unlink(missing_ok=True)
    assert [str(finding) for finding in verify(mine, deep=True) if not finding.is_harmless] == []
    good = rows_of(mine)
    assert 0 < len(whole) - len(good) < len(whole) // 4
    assert [record for record in good if record.partition != CUT.partition] == [
        record for record in whole if record.partition != CUT.partition
    ]
    names = [Path(path).name for path in mine]
    with Broker(Path(mine[0]).parent, jars, log_directory_names=names) as broker:
        for level in ISOLATION_LEVELS:
            assert broker.consume(["bank"], isolation_level=level) == rows_of(mine, level)
        assert broker.problems() == []

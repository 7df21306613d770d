"""What we read from a broker's folders against what a consumer of that broker gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.broker import Broker, copy_log_directories
from tests.support.kafka_jars import KafkaJars
from tests.support.rows import Rows, by_topic, read_rows
from tests.support.traffic import (
    TOPICS,
    create_topics,
    wait_until_cleaned,
    write_first_wave,
    write_second_wave,
)

pytestmark = pytest.mark.interop

SEED = 4311
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
STAGES = ("live", "crashed", "live after a restart", "cleanly stopped")


@dataclass(frozen=True, slots=True)
class Stage:
    """A state of the broker's folders: what a consumer got, and how we read it."""

    consumed: dict[str, Rows]
    read: Callable[[str], Rows]


@pytest.fixture(scope="module")
def stages(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    """Run a broker through its life once; live folders are read while it runs."""
    print(f"seed {SEED}")
    root = tmp_path_factory.mktemp("life")
    found: dict[str, Stage] = {}
    with Broker(root / "broker", jars) as broker:
        create_topics(broker)
        write_first_wave(broker, SEED)
        wait_until_cleaned(broker)
        found["live"] = _live_stage(broker)
        broker.kill()
        crashed = copy_log_directories(broker, root / "crashed")
        found["crashed"] = Stage(found["live"].consumed, _reading(crashed))
        broker.start()
        write_second_wave(broker, SEED + 1)
        wait_until_cleaned(broker)
        found["live after a restart"] = _live_stage(broker)
        broker.stop()
        stopped = _reading(broker.log_directories)
        found["cleanly stopped"] = Stage(found["live after a restart"].consumed, stopped)
        assert broker.problems() == []
    return found


def _live_stage(broker: Broker) -> Stage:
    """Read beside the running broker, now."""
    read = {level: _reading(broker.log_directories)(level) for level in ISOLATION_LEVELS}
    consumed = {
        level: by_topic(broker.consume(TOPICS, isolation_level=level)) for level in ISOLATION_LEVELS
    }
    return Stage(consumed, read.__getitem__)


def _reading(log_directories: list[Path]) -> Callable[[str], Rows]:
    return lambda level: read_rows(log_directories, kafka_isolation_level=level)


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("stage", STAGES)
def test_rows_are_those_of_a_consumer(
    stages: dict[str, Stage], stage: str, isolation_level: str
) -> None:
    theirs = stages[stage].consumed[isolation_level]
    ours = stages[stage].read(isolation_level)

    assert sorted(ours) == sorted(theirs)
    for topic in theirs:
        assert ours[topic] == theirs[topic], topic


def test_the_broker_wrote_what_these_tests_are_about(stages: dict[str, Stage]) -> None:
    uncommitted = stages["cleanly stopped"].consumed["read_uncommitted"]
    committed = stages["cleanly stopped"].consumed["read_committed"]

    assert sorted(uncommitted) == sorted(TOPICS)
    for topic in ("ledger", "bank"):
        assert len(committed[topic]) < len(uncommitted[topic])
    assert b"after the open one" not in {row.value for row in committed["ledger"]}
    offsets = [row.offset for row in uncommitted["table"] if row.partition == 0]
    assert offsets[-1] - offsets[0] + 1 > len(offsets)
    assert {row.timestamp_type for row in uncommitted["appended"]} == {1}
    assert uncommitted["trimmed"][0].offset == 13

"""``segmentlog adopt``: a line a point, and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_data import unpack
from tests.support.running import objects, run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    log = unpack("kafka-4.3.1", "clean", tmp_path_factory.mktemp("adopt"))
    return list(log.log_directories)


def test_points_that_are_met(broker: list[str]) -> None:
    ran = run("adopt", "orders", *broker)
    assert (ran.exit_code, ran.lines[-1]) == (0, "0 missing")
    assert ran.lines[0] == "ok: log directories: are there"


def test_points_that_are_missing(broker: list[str], tmp_path: Path) -> None:
    told = objects("adopt", "absent", *broker, exit_code=1)
    assert [row["point"] for row in told if row["state"] == "missing"] == ["topic"]
    ran = run("adopt", "orders", tmp_path / "absent")
    assert (ran.exit_code, ran.lines[-1]) == (1, "1 missing")

"""A sink that is driven without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sink import (
    Sink,
)


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sink:
    return Sink(monkeypatch, [tmp_path / "log"])

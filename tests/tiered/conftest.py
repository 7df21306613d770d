from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiered.store_data import Store, unpack


@pytest.fixture(scope="session")
def open_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Store]:
    """Give a variant that nobody changes, unpacked once."""
    opened: dict[str, Store] = {}

    def unpacked(name: str) -> Store:
        if name not in opened:
            opened[name] = unpack(name, tmp_path_factory.mktemp(name))
        return opened[name]

    return unpacked


@pytest.fixture
def own_store(tmp_path: Path) -> Callable[[str], Store]:
    """Give a variant that the test may change."""
    return lambda name: unpack(name, tmp_path / name)

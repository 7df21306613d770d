"""A segment of a store, of several chunks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.store_data import Store


@pytest.fixture
def segment(
    own_store: Callable[[str], Store], request: pytest.FixtureRequest
) -> Iterator[tuple[Store, str]]:
    """A segment of several chunks, by its path without suffix."""
    store = own_store(request.param)
    logs = sorted(Path(store.remote).glob("t.none-*/0/*.log"))
    yield store, str(logs[0]).removesuffix(".log")
    shutil.rmtree(store.folder)

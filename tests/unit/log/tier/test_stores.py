"""Which layout a store has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.errors import RemoteStorageError
from tests.support.store_data import (
    Store,
    read_rows,
)

OpenStore = Callable[[str], Store]


def test_a_store_of_no_known_layout_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    with pytest.raises(RemoteStorageError, match=r"no remote segments of a known layout.*aiven"):
        read_rows(open_store("local").log_directory, remote_storage=str(tmp_path))

"""The layout of chunked objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.tier.remote_segment import IndexKind
from tests.support.chunks import LAYOUT, change
from tests.support.store_data import Store


def read_index(store: Store, path: str) -> bytes | None:
    detail = LAYOUT.read_detail(LOCAL, path)
    return LAYOUT.read_index(LOCAL, path, IndexKind.OFFSET, detail, store.key_files)


@pytest.mark.parametrize("segment", ["aiven-zstd-aes"], indirect=True)
def test_an_index_of_other_bytes_names_object_and_index(segment: tuple[Store, str]) -> None:
    store, path = segment
    change(f"{path}.indexes", 3)
    with pytest.raises(RemoteStorageError, match=rf"index offset in {path}\.indexes: its tag"):
        read_index(store, path)
    Path(f"{path}.indexes").write_bytes(b"")
    with pytest.raises(RemoteStorageError, match=rf"{path}\.indexes ends at 0, inside its index"):
        read_index(store, path)

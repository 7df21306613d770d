"""Chunked objects, read whole and changed."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.tier.chunked import ChunkedLayout
from spark_segmentlog.log.tier.remote_segment import KeyFiles
from tests.support.store_data import Store

LAYOUT = ChunkedLayout()


def read(store: Store, path: str, keys: KeyFiles | None = None) -> bytes:
    detail = LAYOUT.read_detail(LOCAL, path)
    with LAYOUT.open_log(LOCAL, path, detail, store.key_files if keys is None else keys) as file:
        return file.read_at(0, file.size())


def change(path: str, position: int) -> None:
    data = bytearray(Path(path).read_bytes())
    data[position] ^= 1
    Path(path).write_bytes(data)

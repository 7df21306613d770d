"""Chunks and indexes of objects: ranges, requests, keys, and bytes that are not as they must be."""

from __future__ import annotations

import base64
import tracemalloc
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.tier.chunked_file import ChunkedFile
from spark_segmentlog.log.tier.manifest import parse_manifest
from spark_segmentlog.log.tier.objects import BytesFile, EndOfFile
from tests.support.chunks import change, read
from tests.support.store_data import Store
from tests.unit.log.tier.test_manifest import manifest

CHUNK = 1000


def chunked(plain: bytes, chunk_bytes: int = CHUNK) -> tuple[BytesFile, bytes]:
    """Compress in chunks; gives the object, and its manifest."""
    parts = [
        bytes(cramjam.zstd.compress(plain[start : start + chunk_bytes]))
        for start in range(0, len(plain), chunk_bytes)
    ]
    sizes = [len(part) for part in parts]
    base = min(sizes[:-1], default=0)
    if len(sizes) == 1:
        code = (1).to_bytes(4, "big")
    else:
        code = len(sizes).to_bytes(4, "big") + base.to_bytes(4, "big") + b"\4"
        code += b"".join((size - base).to_bytes(4, "big") for size in sizes[:-1])
    code += sizes[-1].to_bytes(4, "big")
    text = base64.b64encode(bytes(cramjam.zstd.compress(code))).decode()
    data = manifest(
        chunkIndex__originalChunkSize=chunk_bytes,
        chunkIndex__originalFileSize=len(plain),
        chunkIndex__transformedChunks=text,
    )
    return BytesFile("some/object.log", b"".join(parts)), data


class CountedFile(BytesFile):
    """Counts its reads."""

    def __init__(self, file: BytesFile) -> None:
        super().__init__(file.path, file.read_at(0, file.size()))
        self.reads: list[tuple[int, int]] = []

    def read_at(self, position: int, length: int) -> bytes:
        self.reads.append((position, length))
        return super().read_at(position, length)


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 31_000), st.integers(0, 5000)), max_size=8),
    st.integers(0, 999),
)
@settings(max_examples=60)
def test_any_ranges_are_those_of_the_plain_file(
    chunks: int, ranges: list[tuple[int, int]], rest: int
) -> None:
    plain = np.random.default_rng(chunks).integers(0, 50, chunks * CHUNK - rest, np.uint8).tobytes()
    stored, data = chunked(plain)
    with ChunkedFile(stored, parse_manifest(data, "m"), None) as file:
        assert file.size() == len(plain)
        for position, length in ranges:
            assert file.read_at(position, length) == plain[position : position + length]


def test_a_scan_reads_each_byte_once_in_large_requests() -> None:
    plain = np.random.default_rng(1).bytes(24 << 20)
    stored, data = chunked(plain, 1 << 20)
    counted = CountedFile(stored)
    with ChunkedFile(counted, parse_manifest(data, "m"), None) as file:
        position, step = 0, 256 << 10
        read = []
        while part := file.read_at(position, step):
            read.append(part)
            position += len(part)
            step = 2 << 20
    assert b"".join(read) == plain
    reads = sorted(counted.reads)
    assert sum(length for _, length in reads) == stored.size()
    assert len(reads) <= 2 + -(-stored.size() // (3 << 20))


def test_a_lookup_reads_the_chunks_that_hold_it() -> None:
    plain = np.random.default_rng(1).bytes(64 * CHUNK)
    stored, data = chunked(plain)
    counted = CountedFile(stored)
    with ChunkedFile(counted, parse_manifest(data, "m"), None) as file:
        file.read_at(20 * CHUNK + 900, 200)
        file.read_at(20 * CHUNK + 10, 1500)
    assert len(counted.reads) == 1
    assert counted.reads[0][1] < 3 * CHUNK


def test_the_end_of_a_file() -> None:
    file = EndOfFile(BytesFile("f", bytes(range(100))), 40)
    buffer = np.zeros(50, np.uint8)
    assert (file.size(), file.read_at(10, 3)) == (60, bytes([50, 51, 52]))
    assert file.pread_into(buffer, 55, 50) == 5
    assert buffer[:6].tolist() == [95, 96, 97, 98, 99, 0]
    assert (file.next_data_position(59), file.next_data_position(60)) == (59, None)


@pytest.mark.parametrize("segment", ["aiven-zstd-aes"], indirect=True)
def test_a_changed_chunk_names_object_and_chunk(segment: tuple[Store, str]) -> None:
    store, path = segment
    found = parse_manifest(Path(f"{path}.rsm-manifest").read_bytes(), "m")
    start, end = found.stored_span(2, 2)
    for position in (start, start + 20, end - 1):
        change(f"{path}.log", position)
        place = rf"chunk 2 of {path}\.log, stored bytes {start} to {end}: its tag is not"
        with pytest.raises(RemoteStorageError, match=place):
            read(store, path)
        change(f"{path}.log", position)
    assert len(read(store, path)) == found.file_bytes


@pytest.mark.parametrize("segment", ["aiven-zstd"], indirect=True)
def test_a_chunk_that_is_no_frame_names_object_and_chunk(segment: tuple[Store, str]) -> None:
    store, path = segment
    change(f"{path}.log", 0)
    with pytest.raises(RemoteStorageError, match=rf"chunk 0 of {path}\.log, .*no zstd frame of"):
        read(store, path)


@pytest.mark.parametrize("segment", ["aiven-plain", "aiven-zstd", "aiven-zstd-aes"], indirect=True)
@pytest.mark.parametrize("change_bytes", [-3, 5])
def test_an_object_of_another_size_names_the_chunk(
    segment: tuple[Store, str], change_bytes: int
) -> None:
    store, path = segment
    log = Path(f"{path}.log")
    data = log.read_bytes()
    log.write_bytes(data[:change_bytes] if change_bytes < 0 else data + bytes(change_bytes))
    text = (
        rf"{path}\.log has {len(data) + change_bytes} bytes, its manifest says {len(data)}; chunk"
    )
    with pytest.raises(RemoteStorageError, match=text):
        read(store, path)


def test_a_bomb_in_a_chunk_takes_no_memory() -> None:
    stored, data = chunked(bytes(3 * CHUNK))
    bomb = bytes(cramjam.zstd.compress(bytes(256 << 20)))
    length = parse_manifest(data, "m").stored_span(0, 0)[1]
    # The manifest's sizes are kept: what unpacks to more than the chunk is cut off, or refused.
    cut = BytesFile("some/object.log", bomb[:length] + stored.read_at(length, 1 << 20))
    tracemalloc.start()
    try:
        with (
            ChunkedFile(cut, parse_manifest(data, "m"), None) as file,
            pytest.raises(RemoteStorageError, match=r"chunk 0 of some/object\.log"),
        ):
            file.read_at(0, 10)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_chunk_that_unpacks_to_more_or_less_is_refused() -> None:
    for size in (CHUNK - 1, CHUNK + 1):
        stored, data = chunked(bytes(size), size)
        lying = data.replace(f'"originalChunkSize": {size}'.encode(), b'"originalChunkSize": 1000')
        lying = lying.replace(f'"originalFileSize": {size}'.encode(), b'"originalFileSize": 1000')
        with (
            ChunkedFile(stored, parse_manifest(lying, "m"), None) as file,
            pytest.raises(RemoteStorageError, match="chunk 0 of some/object"),
        ):
            file.read_at(0, 10)

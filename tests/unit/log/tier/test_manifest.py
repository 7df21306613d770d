"""Manifests: what the plugin wrote is read, what cannot be is an error that names it."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.tier.manifest import parse_manifest
from spark_segmentlog.log.tier.remote_segment import IndexKind
from tests.support.store_data import CHUNKED, Store

# Of a real segment: chunks of 980, 1038, 1009, 1014 and 270 stored bytes.
SIZES = struct.pack(">iib4si", 5, 980, 1, bytes([0, 0x3A, 0x1D, 0x22]), 270)


def encoded(sizes: bytes) -> str:
    return base64.b64encode(bytes(cramjam.zstd.compress(sizes))).decode()


def manifest(**changes: Any) -> bytes:
    """Make a manifest of five compressed chunks; `None` takes a field away."""
    found = {
        "version": "1",
        "chunkIndex": {
            "type": "variable",
            "originalChunkSize": 2048,
            "originalFileSize": 8541,
            "transformedChunks": encoded(SIZES),
        },
        "segmentIndexes": {
            "offset": {"position": 0, "size": 80},
            "timestamp": {"position": 80, "size": 120},
            "producerSnapshot": {"position": 200, "size": 10},
            "leaderEpoch": {"position": 210, "size": 8},
            "transaction": None,
        },
        "compression": True,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {"id": "laQdeLIuSGKB_mHzRfM0uQ"},
            "startOffset": 100,
            "endOffset": 173,
            "maxTimestampMs": 1700259543000,
            "segmentLeaderEpochs": {"2": 100, "10": 150},
        },
    }
    for name, value in changes.items():
        *path, last = name.split("__")
        place: Any = found
        for part in path:
            place = place[part]
        place[last] = value
    return json.dumps(found).encode()


def test_numbers_of_a_manifest() -> None:
    found = parse_manifest(manifest(), "m")
    assert found.stored_ends.tolist() == [980, 2018, 3027, 4041, 4311]
    assert found.stored_span(1, 2) == (980, 3027)
    assert [found.plain_bytes(chunk) for chunk in range(5)] == [2048] * 4 + [349]
    assert found.metadata is not None
    assert found.metadata.leader_epochs == (LeaderEpoch(2, 100), LeaderEpoch(10, 150))
    assert (found.metadata.start_offset, found.metadata.end_offset) == (100, 173)
    assert IndexKind.TRANSACTION not in found.indexes


@pytest.mark.parametrize("name", CHUNKED)
def test_manifests_of_the_plugin(open_store: Callable[[str], Store], name: str) -> None:
    paths = sorted(Path(open_store(name).remote).rglob("*.rsm-manifest"))
    assert len(paths) > 80
    for path in paths:
        found = parse_manifest(path.read_bytes(), str(path))
        log = path.with_name(f"{path.name.removesuffix('.rsm-manifest')}.log")
        if log.exists():
            assert found.stored_ends[-1] == log.stat().st_size


def huge_bomb() -> str:
    return encoded(struct.pack(">i", 5) + bytes(64 << 20))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 1}, "its version is 1"),
        ({"version": "2"}, "its version is '2'"),
        ({"compression": None}, "'compression' is None"),
        ({"compression": False}, "chunk 0 has 980 stored bytes, allowed are 2048 to 2048"),
        ({"chunkIndex": []}, "'chunkIndex' is no JSON object"),
        ({"chunkIndex__type": "odd"}, "of type 'odd'"),
        ({"chunkIndex__originalChunkSize": 0}, "'originalChunkSize' is 0"),
        ({"chunkIndex__originalChunkSize": -1}, "'originalChunkSize' is -1"),
        ({"chunkIndex__originalChunkSize": True}, "'originalChunkSize' is True"),
        ({"chunkIndex__originalChunkSize": 1.5}, r"'originalChunkSize' is 1\.5"),
        ({"chunkIndex__originalChunkSize": 1}, "is not of 8541 chunks"),
        ({"chunkIndex__originalFileSize": 2**31}, "'originalFileSize' is 2147483648"),
        ({"chunkIndex__originalFileSize": 2**31 - 1}, "is no zstd frame|is not of 1048576 chunks"),
        (
            {"chunkIndex__originalFileSize": 2**31 - 1, "chunkIndex__originalChunkSize": 1},
            "2147483647 chunks, allowed are",
        ),
        (
            {"chunkIndex__originalFileSize": 2**31 - 1, "chunkIndex__originalChunkSize": 2**30},
            "chunks of 1073741824 bytes, allowed are",
        ),
        ({"chunkIndex__originalFileSize": 8192}, "is not of 4 chunks"),
        ({"chunkIndex__transformedChunks": None}, "'transformedChunks' is no text"),
        ({"chunkIndex__transformedChunks": "%"}, "no base64"),
        ({"chunkIndex__transformedChunks": "AAAA"}, "no zstd frame of 5 sizes"),
        ({"chunkIndex__transformedChunks": encoded(SIZES[:-1])}, "22 bytes|16 bytes in place of"),
        (
            {"chunkIndex__transformedChunks": encoded(SIZES[:8] + b"\5" + SIZES[9:])},
            "values of 5 bytes",
        ),
        (
            {"chunkIndex__transformedChunks": encoded(SIZES[:-4] + struct.pack(">i", -7))},
            "chunk 4 has -7 stored bytes",
        ),
        (
            {"chunkIndex__transformedChunks": encoded(SIZES[:4] + b"\x7f" + SIZES[5:])},
            "chunk 0 has 2130707412 stored bytes",
        ),
        ({"segmentIndexes__offset": None}, "lacks 'offset'"),
        ({"segmentIndexes__timestamp__position": 79}, "index 'timestamp' lies elsewhere"),
        ({"segmentIndexes__offset__size": -80}, "'size' is -80"),
        ({"encryption": {}}, "'dataKey' is no text"),
        ({"encryption": {"dataKey": "AAAA", "aad": ""}}, "names no key pair"),
        ({"encryption": {"dataKey": "k:AAAA", "aad": "AAAA"}}, "'aad' has 3 bytes"),
        ({"remoteLogSegmentMetadata__startOffset": -1}, "'startOffset' is -1"),
        ({"remoteLogSegmentMetadata__endOffset": 99}, "'endOffset' is 99"),
        ({"remoteLogSegmentMetadata__endOffset": 10**400}, "'endOffset' is 1000"),
        ({"remoteLogSegmentMetadata__segmentLeaderEpochs": {"-1": 0}}, "'-1' is no leader epoch"),
        ({"remoteLogSegmentMetadata__segmentLeaderEpochs": {"9" * 9999: 0}}, "no leader epoch"),
    ],
)
def test_what_cannot_be_names_the_manifest(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(RemoteStorageError, match=f"manifest some/object: .*({reason})"):
        parse_manifest(manifest(**changes), "some/object")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"version":"1"}'])
def test_what_is_no_manifest_names_it(data: bytes) -> None:
    with pytest.raises(RemoteStorageError, match="manifest m: "):
        parse_manifest(data, "m")


def test_a_bomb_of_sizes_takes_no_memory() -> None:
    bomb = manifest(chunkIndex__transformedChunks=huge_bomb())
    tracemalloc.start()
    try:
        with pytest.raises(RemoteStorageError, match="no zstd frame of 5 sizes"):
            parse_manifest(bomb, "m")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


@given(st.data())
@settings(max_examples=150)
def test_any_manifest_is_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(manifest())
    if data.draw(st.booleans()):
        found = json.loads(bytes(text))
        place: Any = found
        for _ in range(data.draw(st.integers(0, 2))):
            name = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[name], dict) or not place[name]:
                break
            place = place[name]
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON_VALUES)
        text = bytearray(json.dumps(found).encode())
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_manifest(bytes(text), "m")
    except RemoteStorageError:
        return
    assert found.stored_ends[-1] > 0
    assert sum(map(found.plain_bytes, range(found.chunks_count))) == found.file_bytes

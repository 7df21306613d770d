"""A store of objects in memory that counts requests, and tiers of many segments in it."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from fsspec import AbstractFileSystem
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem

from spark_segmentlog.log.formats.producer_snapshot import format_producer_snapshot
from spark_segmentlog.testing.batches import RecordSpec, v2_batch

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
RECORDS = 10
PAGE = 1000
CHUNK = 4 << 20


@dataclass
class ObjectStore(FileSystemHandler):  # type: ignore[misc]
    """Objects by path. `requests` counts by kind: list (pages of 1,000), head, get; `reads` bytes.

    A ``head`` is what pyarrow asks for an object that it opens, or for the kind of a path.
    """

    objects: dict[str, Any] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    reads: list[tuple[str, int, int]] = field(default_factory=list)

    def filesystem(self) -> PyFileSystem:
        return PyFileSystem(self)

    def fsspec_filesystem(self) -> AbstractFileSystem:
        """The same as fsspec has it, where opening a file asks for nothing."""
        return _FsspecObjects(self)

    def reset(self) -> None:
        self.requests.clear()
        self.reads.clear()

    def read(self, path: str, position: int, length: int | None) -> bytes:
        """Read a range, or the whole rest, by one request."""
        end = None if length is None else position + length
        data = bytes(self.objects[path][position:end])
        self.requests["get"] += 1
        self.reads.append((path, position, len(data)))
        return data

    def get_type_name(self) -> str:
        return "objects"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        self.requests["head"] += len(paths)
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        if path in self.objects:
            return FileInfo(path, FileType.File, size=len(self.objects[path]))
        prefix = path.rstrip("/") + "/"
        is_folder = any(row.startswith(prefix) for row in self.objects)
        return FileInfo(path, FileType.Directory if is_folder else FileType.NotFound)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        prefix = selector.base_dir.rstrip("/") + "/"
        start = len(prefix)
        names = {
            row[: row.find("/", start)] if row.find("/", start) > 0 else row
            for row in self.objects
            if row.startswith(prefix)
        }
        self.requests["list"] += max(-(-len(names) // PAGE), 1)
        if not names:
            raise FileNotFoundError(selector.base_dir)
        return [
            FileInfo(name, FileType.File, size=len(self.objects[name]))
            if name in self.objects
            else FileInfo(name, FileType.Directory)
            for name in names
        ]

    def open_input_file(self, path: str) -> Any:
        self.requests["head"] += 1
        if path not in self.objects:
            raise FileNotFoundError(path)
        return pa.PythonFile(_Reader(self, path), mode="r")

    def _refuse(self, *paths: Any) -> None:
        raise NotImplementedError("a reader never writes")

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = _refuse
    delete_root_dir_contents = move = open_append_stream = open_output_stream = _refuse
    open_input_stream = _refuse

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass
class TogetherStore(ObjectStore):
    """A store some of whose requests are answered when all of these are under way at once."""

    _meetings: list[_Meeting] = field(default_factory=list)

    def await_together(self, paths: Iterable[str], *, among: str = "get") -> None:
        """Have the first request for each of some paths wait for those for the others.

        `among` is the kind of the requests: ``get`` or ``list``.
        """
        waiting = set(paths)
        barrier = threading.Barrier(len(waiting), timeout=60)
        self._meetings.append(_Meeting(among, waiting, barrier))

    def read(self, path: str, position: int, length: int | None) -> bytes:
        self._await_others(path, "get")
        return super().read(path, position, length)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        self._await_others(selector.base_dir, "list")
        return super().get_file_info_selector(selector)

    def _await_others(self, path: str, kind: str) -> None:
        for meeting in self._meetings:
            if meeting.kind == kind and path in meeting.waiting:
                meeting.waiting.discard(path)
                meeting.barrier.wait()


@dataclass
class _Meeting:
    kind: str
    waiting: set[str]
    barrier: threading.Barrier


class _FsspecObjects(AbstractFileSystem):  # type: ignore[misc]
    """The objects of a store, by fsspec's interface."""

    cachable = False

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._store = store

    def ls(self, path: str, detail: bool = True, **others: Any) -> list[Any]:
        found = self._store.get_file_info_selector(FileSelector(path))
        infos = [self._fields(info) for info in found]
        return infos if detail else [info["name"] for info in infos]

    def info(self, path: str, **others: Any) -> dict[str, Any]:
        (info,) = self._store.get_file_info([path])
        if info.type == FileType.NotFound:
            raise FileNotFoundError(path)
        return self._fields(info)

    def _fields(self, info: FileInfo) -> dict[str, Any]:
        is_directory = info.type == FileType.Directory
        return {
            "name": info.path,
            "size": 0 if is_directory else info.size,
            "type": "directory" if is_directory else "file",
            "ETag": None if is_directory else _version(self._store.objects[info.path]),
        }

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **others: Any
    ) -> bytes:
        if path not in self._store.objects:
            self._store.requests["get"] += 1
            raise FileNotFoundError(path)
        return self._store.read(path, start or 0, None if end is None else end - (start or 0))


def _version(data: Any) -> str:
    return str(zlib.crc32(data) if isinstance(data, bytes) else id(data))


class _Reader:
    """A file that counts each read as a request."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._position = 0
        self.closed = False

    def size(self) -> int:
        return len(self._store.objects[self._path])

    def seek(self, position: int, whence: int = 0) -> int:
        self._position = position + (self.size() if whence == 2 else 0)
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, length: int = -1) -> bytes:
        data = self._store.read(self._path, self._position, None if length < 0 else length)
        self._position += len(data)
        return data

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True


def add_partition(
    store: ObjectStore, root: str, topic: str, segments: int, *, value_bytes: int = 0
) -> None:
    """Add a partition of plain segments in the plugin's layout, `RECORDS` offsets each."""
    values = [b"v%d" % number + bytes(value_bytes) for number in range(RECORDS)]
    batch = v2_batch([RecordSpec(value=value) for value in values])
    for number in range(segments):
        base = number * RECORDS
        add_segment(store, root, topic, base, [batch], segment_id=f"{number:022d}")


def add_segment(
    store: ObjectStore,
    root: str,
    topic: str,
    base_offset: int,
    batches: list[bytes],
    *,
    segment_id: str,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
) -> None:
    """Add a plain segment in the plugin's layout, of batches of `RECORDS` records each.

    `epochs` are the log's (leader epoch, first offset) up to the segment's end.
    """
    path = f"{root}/{topic}-{TOPIC_ID}/0/{base_offset:020d}-{segment_id}"
    last_offset = base_offset + len(batches) * RECORDS - 1
    rows = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    # The checksum does not cover the base offset.
    log = b"".join(
        struct.pack(">q", base_offset + number * RECORDS) + batch[8:]
        for number, batch in enumerate(batches)
    )
    start_of_last = len(log) - len(batches[-1])
    places: dict[str, Any] = {"transaction": None}
    data = b""
    for name, part in (
        ("offset", struct.pack(">ii", last_offset - base_offset, start_of_last)),
        ("timestamp", struct.pack(">qi", 0, last_offset - base_offset)),
        ("producerSnapshot", format_producer_snapshot([])),
        ("leaderEpoch", f"0\n{len(epochs)}\n{rows}".encode()),
    ):
        places[name] = {"position": len(data), "size": len(part)}
        data += part
    ends = [start for _, start in epochs[1:]] + [last_offset + 1]
    of_segment = {
        str(epoch): max(start, base_offset)
        for (epoch, start), end in zip(epochs, ends, strict=True)
        if end > base_offset
    }
    store.objects[f"{path}.log"] = log
    store.objects[f"{path}.indexes"] = data
    store.objects[f"{path}.rsm-manifest"] = json.dumps(
        {
            "version": "1",
            "chunkIndex": {
                "type": "fixed",
                "originalChunkSize": CHUNK,
                "originalFileSize": len(log),
                "transformedChunkSize": CHUNK,
                "finalTransformedChunkSize": len(log) % CHUNK or CHUNK,
            },
            "segmentIndexes": places,
            "compression": False,
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {"id": segment_id},
                "startOffset": base_offset,
                "endOffset": last_offset,
                "maxTimestampMs": 0,
                "segmentLeaderEpochs": of_segment,
            },
        }
    ).encode()

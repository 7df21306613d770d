"""Small far files are read once, and no more of them are kept than was said."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import pytest

from spark_segmentlog.log.io.kept_files import KEPT_BYTES, KeptFiles
from spark_segmentlog.log.io.remote_file import PEEK_BYTES
from spark_segmentlog.log.io.threads import in_parallel


class Bytes:
    """A source that counts its reads."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads = 0
        self.closed = 0

    def size(self) -> int:
        return len(self.data)

    def read(self, position: int, length: int) -> bytes:
        self.reads += 1
        return self.data[position : position + length]

    def close(self) -> None:
        self.closed += 1


def reader(kept: KeptFiles, path: str, source: Bytes) -> Callable[[int, int], bytes]:
    return kept.source(path, source.size(), lambda: source).read


def test_a_file_is_read_whole_and_once() -> None:
    kept, source = KeptFiles(), Bytes(b"abcdef")
    assert reader(kept, "f/a", source)(2, 3) == b"cde"
    assert reader(kept, "f/a", source)(0, 1) == b"a"
    assert (source.reads, source.closed) == (1, 1)


def test_a_file_is_read_once_by_many_threads() -> None:
    together = threading.Barrier(4, timeout=60)

    class Slow(Bytes):
        def read(self, position: int, length: int) -> bytes:
            asked.wait(timeout=60)
            return super().read(position, length)

    asked = threading.Event()
    kept, source = KeptFiles(), Slow(b"abc")

    def read(number: int) -> bytes:
        if together.wait() == 0:
            asked.set()
        return reader(kept, "f/a", source)(number, 1)

    assert in_parallel(read, [0, 1, 2, 1]) == [b"a", b"b", b"c", b"b"]
    assert source.reads == 1


def test_files_of_a_folder_that_is_forgotten_are_read_again() -> None:
    kept = KeptFiles()
    sources = {path: Bytes(b"abc") for path in ("f/a", "f/b", "f/g/a", "g/a")}
    for _ in range(2):
        for path, source in sources.items():
            reader(kept, path, source)(0, 3)
        kept.forget("f")
    assert [source.reads for source in sources.values()] == [2, 2, 1, 1]


def test_those_that_came_first_are_dropped_for_others() -> None:
    kept = KeptFiles()
    most = KEPT_BYTES // PEEK_BYTES
    sources = [Bytes(bytes(PEEK_BYTES)) for _ in range(most + 1)]
    for number, source in enumerate(sources):
        reader(kept, f"f/{number}", source)(0, 1)
    for number in (1, most, 0):
        reader(kept, f"f/{number}", sources[number])(0, 1)
    assert [sources[number].reads for number in (0, 1, most)] == [2, 1, 1]


def test_a_file_that_could_not_be_read_is_asked_for_again() -> None:
    kept, missing = KeptFiles(), [True]

    class Missing(Bytes):
        def read(self, position: int, length: int) -> bytes:
            if missing:
                raise FileNotFoundError(missing.pop())
            return super().read(position, length)

    source = Missing(b"abc")
    with pytest.raises(FileNotFoundError):
        reader(kept, "f/a", source)(0, 3)
    assert reader(kept, "f/a", source)(0, 3) == b"abc"
    assert source.closed == 2


def test_what_was_read_stays_in_its_process() -> None:
    kept, source = KeptFiles(), Bytes(b"abc")
    reader(kept, "f/a", source)(0, 3)
    copy = pickle.loads(pickle.dumps(kept))
    reader(copy, "f/a", source)(0, 3)
    assert source.reads == 2

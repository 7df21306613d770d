"""Faults of objects in a store, and of the metadata beside it, drawn by a seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_segmentlog.errors import SegmentLogError
from tests.support.broker_data import ISOLATION_LEVELS
from tests.support.store_data import STORES, Key, Store, read_rows

# One that is on both sides, with aborted transactions; one of several leader epochs, uploaded twice
# in part; one that is trimmed.
TOPICS = ("t.tx", "t.order", "t.trimmed")
ASSIGNED = {topic: [0] for topic in TOPICS}

Rows = dict[Key, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and what became of a read."""

    seed: int
    store: str
    path: str
    kind: str
    is_alone: bool
    isolation_level: str


class FaultyStores:
    """Reads of small stores, each with one fault in it.

    Parameters
    ----------
    open_store : callable
        Gives a whole store by its name.
    folder : Path
        For copies.
    """

    def __init__(self, open_store: Callable[[str], Store], folder: Path) -> None:
        self._small = {name: _small_copy(open_store(name), folder / name) for name in STORES}
        self._folder = folder
        self._whole: dict[tuple[str, bool, str], Rows] = {}

    def run(self, seed: int) -> tuple[Fault, SegmentLogError | None]:
        """Make a fault and read: the rows must be those of the whole log, or there is an error."""
        chance = random.Random(seed)
        store = self._small[chance.choice(STORES)]
        is_alone = chance.random() < 0.4
        level = chance.choice(ISOLATION_LEVELS)
        paths = _objects(store, is_alone=is_alone)
        kind_of_file = chance.choice(sorted({path.suffix for path in paths}))
        path = chance.choice([path for path in paths if path.suffix == kind_of_file])
        kinds = [flip, cut, zero, overwrite, lengthen, exchange]
        # Without metadata an object that is not there was never uploaded, or is deleted.
        kinds += [] if is_alone else [remove]
        kind = chance.choice(kinds)
        fault = Fault(seed, store.name, str(path), kind.__name__, is_alone, level)
        whole = self._rows(store, is_alone=is_alone, level=level)
        before = path.read_bytes()
        try:
            kind(path, chance, paths)
            rows = _read(store, is_alone=is_alone, level=level)
        except SegmentLogError as error:
            return fault, error
        finally:
            path.write_bytes(before)
        assert rows == whole, (fault, _difference(rows, whole))
        return fault, None

    def _rows(self, store: Store, *, is_alone: bool, level: str) -> Rows:
        key = store.name, is_alone, level
        if key not in self._whole:
            self._whole[key] = _read(store, is_alone=is_alone, level=level)
        return self._whole[key]


def _read(store: Store, *, is_alone: bool, level: str) -> Rows:
    options = {"assign": ASSIGNED, "kafka_isolation_level": level, **store.options}
    if is_alone:
        return read_rows(store.remote, **options)
    return read_rows(store.log_directory, remote_storage=store.remote, **options)


def _difference(rows: Rows, whole: Rows) -> list[Key]:
    return sorted(key for key in rows.keys() | whole.keys() if rows.get(key) != whole.get(key))[:5]


def _small_copy(store: Store, target: Path) -> Store:
    """Copy what is read of the topics, and the metadata."""
    small = Store(store.name, target)
    for folder in Path(store.log_directory).iterdir():
        if folder.is_file():
            target.joinpath("d0").mkdir(parents=True, exist_ok=True)
            shutil.copy(folder, target / "d0")
        elif folder.name.startswith(("__remote", *(f"{topic}-0" for topic in TOPICS))):
            shutil.copytree(folder, target / "d0" / folder.name)
    for path in Path(store.remote).rglob("*"):
        is_of_topic = any(f"/{topic}-" in str(path) for topic in TOPICS)
        if path.is_file() and is_of_topic and "-1-" not in path.parent.name[:11]:
            inner = small.folder / path.relative_to(store.folder)
            inner.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, inner)
    if (store.folder / "TEST-KEYS").exists():
        shutil.copytree(store.folder / "TEST-KEYS", target / "TEST-KEYS")
    return small


def _objects(store: Store, *, is_alone: bool) -> list[Path]:
    remote = [path for path in sorted(Path(store.remote).rglob("*")) if path.is_file()]
    if is_alone:
        return remote
    metadata = sorted(Path(store.log_directory).glob("__remote_log_metadata-*/*.log"))
    return remote + metadata


# Faults


def flip(path: Path, chance: random.Random, paths: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 1, 4])):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut(path: Path, chance: random.Random, paths: list[Path]) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) + 1)])


def zero(path: Path, chance: random.Random, paths: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def overwrite(path: Path, chance: random.Random, paths: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    start = chance.randrange(len(data) + 1)
    rubbish = chance.randbytes(min(chance.choice([1, 8, 100]), len(data) - start))
    data[start : start + len(rubbish)] = rubbish
    path.write_bytes(data)


def lengthen(path: Path, chance: random.Random, paths: list[Path]) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(chance.choice([1, 12, 500])))


def exchange(path: Path, chance: random.Random, paths: list[Path]) -> None:
    """Put the bytes of another object of its kind there."""
    others = [other for other in paths if other.suffix == path.suffix and other != path]
    if others:
        path.write_bytes(chance.choice(others).read_bytes())


def remove(path: Path, chance: random.Random, paths: list[Path]) -> None:
    path.unlink()

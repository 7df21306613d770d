"""Directories whose journals, pointers, versions files and staged files were changed at random.

A commit that died leaves all of them. One is changed, or another kind of thing takes its place;
then a reader looks, and a writer, or a recovery, takes it up. Nothing outside of the log
directories is opened, listed or changed, and every error is one of this library.

``SEGMENTLOG_FUZZ_SEED`` repeats a run, ``SEGMENTLOG_FUZZ_DIRECTORIES`` sets its length.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.directory.journal import (
    COMMIT_DIRECTORY_NAME,
    JOURNAL_FILE_NAME,
    journal_path,
)
from spark_segmentlog.log.directory.open_commit import read_commit_state
from spark_segmentlog.log.directory.versions import VERSIONS_FILE_NAME, read_versions
from spark_segmentlog.log.names import STAGED_PREFIX, TopicPartition
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.write.open_commits import locked_for_writing
from spark_segmentlog.record.plain.crc import crc32c
from tests.support.fault_layer import Faults, Killed
from tests.support.first_format import to_first_format
from tests.support.scenarios import MARK, Scenario, Writing, stage
from tests.support.watched_root import WatchedRoot

INPUTS = int(os.environ.get("SEGMENTLOG_FUZZ_DIRECTORIES", "100000"))
QUICK_INPUTS = 300
SEED = int(os.environ.get("SEGMENTLOG_FUZZ_SEED", "20261128"))
# Of the journals that are refused at sight, one in so many is given to a writer all the same.
REFUSED_ONES_TRIED = 20
LOOKED_OUTSIDE_EVERY = 500

NASTY: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**70,
    1.5,
    float("inf"),
    "",
    "..",
    "../precious",
    "/etc",
    "a/../../precious",
    "\0",
    "t-0/../../precious",
    [],
    {},
    [[]],
    "x" * 5000,
    "\ud800",
]
OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """Two log directories with a staged write; beside them what is precious."""
    root, template = tmp_path / "work", tmp_path / "template"
    for name in ("d0", "d1"):
        (root / name).mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "precious.txt").write_text("precious")
    (precious / f"{0:020d}.log").write_bytes(b"precious" * 200)
    directories = [str(root / name) for name in ("d0", "d1")]
    made = Scenario(root, template, stage(directories, [Writing({OLD: 8})], new_partition_count=1))
    made.commit()
    (root / "d0" / ".kafka_cleanshutdown").write_bytes(MARK)
    tasks = [Writing({OLD: 2, NEW: 2}), Writing({OLD: 30, NEW: 1})]
    request = stage(directories, tasks, new_partition_count=1, application="app", version=3)
    shutil.copytree(root, template)
    return Scenario(root, template, request)


def die(scenario: Scenario) -> None:
    """Commit until the first copy is done."""
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch)
        scenario.commit()
    scenario.reset()
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, kill_at=faults.names.index("copy_range") + 1)
        with pytest.raises(Killed):
            scenario.commit()


# What is changed


def with_checksum(body: bytes) -> bytes:
    return b"%08x\n%s" % (crc32c(body), body)


def mutate_fields(data: bytes, chance: random.Random) -> bytes:
    """Change fields of a journal or a versions file; its checksum is right again."""
    has_checksum = data[:1] != b"{"
    fields = json.loads(data.partition(b"\n")[2] if has_checksum else data)
    for _ in range(chance.randint(1, 3)):
        _mutate_field(fields, chance)
    body = json.dumps(fields).encode()
    return with_checksum(body) if has_checksum else body


def _mutate_field(node: Any, chance: random.Random) -> None:
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and chance.random() < 0.8:
            node = node[key]
            continue
        if isinstance(node[key], int) and chance.random() < 0.5:
            node[key] += chance.choice((-1, 1, 4096, -4096, 2**20))
        elif isinstance(node, dict) and chance.random() < 0.1:
            del node[key]
        else:
            node[key] = copy.deepcopy(chance.choice(NASTY))
        return


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """Change bytes, most of them near the front, where headers are; cut or lengthen in some."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        end = len(changed) if chance.random() < 0.5 else min(len(changed), 70)
        changed[chance.randrange(end)] = chance.choice(
            (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
        )
    if chance.random() < 0.4:
        return bytes(changed[: chance.randint(0, len(changed))])
    return bytes(changed) + (
        chance.randbytes(chance.randint(1, 200)) if chance.random() < 0.2 else b""
    )


def displace(path: Path, precious: Path, chance: random.Random) -> None:
    """Put another kind of thing in a file's place: a link out, a folder, a pipe, or nothing."""
    path.unlink()
    kind = chance.randrange(6)
    if kind == 0:
        path.symlink_to(precious / "precious.txt")
    elif kind == 1:
        path.symlink_to(precious)
    elif kind == 2:
        path.symlink_to(precious / "nothing")
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        os.mkfifo(path)


# Where nothing may be touched


@dataclass(slots=True)
class Pristine:
    """A folder as it was, which is put back by what has changed alone."""

    root: Path
    _contents: dict[Path, bytes] = field(default_factory=dict)
    _stamps: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    _folders: set[Path] = field(default_factory=set)

    @classmethod
    def make(cls, root: Path) -> Pristine:
        made = cls(root)
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                made._folders.add(path)
            else:
                made._contents[path] = path.read_bytes()
                made._stamps[path] = _stamp(path)
        return made

    def restore(self) -> None:
        for folder, folders, names in os.walk(self.root):
            for name in list(folders):
                path = Path(folder, name)
                if path.is_symlink():
                    names.append(name)
                elif path not in self._folders:
                    folders.remove(name)
                    shutil.rmtree(path)
            for name in names:
                path = Path(folder, name)
                if self._stamps.get(path) != _stamp(path):
                    path.unlink()
        for path in sorted(self._folders):
            path.mkdir(exist_ok=True)
        for path, data in self._contents.items():
            if not path.exists():
                path.write_bytes(data)
                self._stamps[path] = _stamp(path)


def _stamp(path: Path) -> tuple[int, ...]:
    status = os.lstat(path)
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns


def outside(scenario: Scenario) -> dict[str, object]:
    """Give all that lies beside the log directories."""
    place = scenario.root.parent
    found: dict[str, object] = {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted((place / "precious").iterdir())
    }
    found["names"] = sorted(os.listdir(place))
    found["roots"] = sorted(os.listdir(scenario.root))
    return found


# The runs


def is_refused(call: Callable[[], object]) -> bool:
    """Call; an error of this library is a refusal, any other one fails the test."""
    try:
        call()
    except SegmentLogError:
        return True
    return False


def take_up(directories: list[str], chance: random.Random) -> bool:
    """Write, or recover, in both directories or in one of them."""
    named = chance.choice((directories, directories[:1], directories[1:]))
    if chance.random() < 0.5:
        return is_refused(lambda: recover(named))

    def write() -> None:
        with locked_for_writing(named):
            pass

    return is_refused(write)


def look(directories: list[str]) -> bool:
    found = [
        is_refused(partial(read, directory))
        for directory in directories
        for read in (read_commit_state, read_versions)
    ]
    return any(found)


def change_one(paths: list[Path], precious: Path, chance: random.Random) -> None:
    path = chance.choice(paths)
    roll = chance.random()
    if roll < 0.1:
        displace(path, precious, chance)
    elif roll < 0.3 or (path.name.startswith(f"{STAGED_PREFIX}") and path.suffix == ".staged"):
        path.write_bytes(mutate_bytes(path.read_bytes(), chance))
    else:
        path.write_bytes(mutate_fields(path.read_bytes(), chance))


def run_fuzz(scenario: Scenario, count: int, *, first_format: bool) -> Counter[str]:
    """Change one file of an open commit at a time, and have it read and taken up."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    die(scenario)
    if first_format:
        to_first_format(scenario.directories)
    pristine, before = Pristine.make(scenario.root), outside(scenario)
    precious = scenario.root.parent / "precious"
    kinds = {
        "journal": [Path(journal_path(scenario.directories[0]))],
        "pointer" if first_format else "other journal": [
            Path(journal_path(scenario.directories[1]))
        ],
        "versions": [Path(directory) / VERSIONS_FILE_NAME for directory in scenario.directories],
        "staged": sorted(scenario.root.glob("*/*.staged")),
    }
    counts: Counter[str] = Counter()
    watch = WatchedRoot(scenario.root)
    take_up(scenario.directories, chance)
    pristine.restore()
    for number in range(count):
        kind = chance.choice(list(kinds))
        change_one(kinds[kind], precious, chance)
        with watch.watching():
            refused = look(scenario.directories)
            if not refused or number % REFUSED_ONES_TRIED == 0:
                refused |= take_up(scenario.directories, chance)
        counts[f"{kind} {'refused' if refused else 'taken'}"] += 1
        check_touched(watch, first_format=first_format)
        if number % LOOKED_OUTSIDE_EVERY == 0:
            assert outside(scenario) == before, number
        pristine.restore()
    assert outside(scenario) == before
    return counts


def check_touched(watch: WatchedRoot, *, first_format: bool) -> None:
    """Format 1 names other directories by their paths: whether they name it back is looked at."""
    looked_at = ("open", os.path.join(COMMIT_DIRECTORY_NAME, JOURNAL_FILE_NAME))
    for event, path in watch.touched:
        assert first_format, (event, path)
        assert event == looked_at[0], (event, path)
        assert path.endswith((looked_at[1], VERSIONS_FILE_NAME)), (event, path)


def run_fuzz_before_the_commit(scenario: Scenario, count: int) -> Counter[str]:
    """Change a staged file between its task and the commit."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    scenario.commit()
    scenario.reset()
    pristine, before = Pristine.make(scenario.root), outside(scenario)
    precious = scenario.root.parent / "precious"
    paths = sorted(scenario.root.glob("*/*.staged"))
    counts: Counter[str] = Counter()
    watch = WatchedRoot(scenario.root)
    for number in range(count):
        change_one(paths, precious, chance)
        with watch.watching():
            refused = is_refused(scenario.commit)
        counts["refused" if refused else "taken"] += 1
        if refused:
            assert not list(scenario.root.glob(f"*/{COMMIT_DIRECTORY_NAME}"))
        assert not watch.touched, watch.touched
        if number % LOOKED_OUTSIDE_EVERY == 0:
            assert outside(scenario) == before, number
        pristine.restore()
    assert outside(scenario) == before
    return counts


@pytest.mark.parametrize("first_format", [False, True])
def test_changed_files_of_a_commit_touch_nothing_outside(
    scenario: Scenario, first_format: bool
) -> None:
    counts = run_fuzz(scenario, QUICK_INPUTS, first_format=first_format)
    assert {count.split()[-1] for count in counts} == {"refused", "taken"}


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first_format", [False, True])
def test_many_changed_files_of_a_commit_touch_nothing_outside(
    scenario: Scenario, first_format: bool, record_property: Callable[[str, object], None]
) -> None:
    counts = run_fuzz(scenario, INPUTS * 2 // 5, first_format=first_format)
    record_property("inputs", dict(counts))


def test_changed_staged_files_are_refused_by_the_commit(scenario: Scenario) -> None:
    assert run_fuzz_before_the_commit(scenario, QUICK_INPUTS)["refused"] > 0


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_many_changed_staged_files_are_refused_by_the_commit(
    scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    counts = run_fuzz_before_the_commit(scenario, INPUTS // 5)
    record_property("inputs", dict(counts))


def test_what_is_touched_outside_is_seen(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"")
    watch = WatchedRoot(root)
    with watch.watching():
        (root / "file").write_bytes(b"")
        os.listdir(root)
        os.unlink(root / "file")
    assert watch.touched == set()
    for touch in (
        lambda: (tmp_path / "file").read_bytes(),
        lambda: (root / "link").read_bytes(),
        lambda: os.listdir(tmp_path),
        lambda: os.rename(root / "link", tmp_path / "moved"),
        lambda: os.mkdir(root / ".." / "made"),
    ):
        watch = WatchedRoot(root)
        with watch.watching():
            touch()
        assert watch.touched

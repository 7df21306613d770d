"""The rules of what must last before what, checked at every file operation.

Bytes last by a sync of the file, names by one of the folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from spark_segmentlog.log.directory.journal import COMMIT_DIRECTORY_NAME, JOURNAL_FILE_NAME
from tests.support.fault_layer import FOLDER, Disk

RULES = {
    "any file gets its name by a rename": (
        "its bytes, but for `.segmentlog-tail`, and indexes of a last segment in a directory "
        "without the mark: both are checked when they are read"
    ),
    "a log, an index or a checkpoint is changed in place": (
        "that the mark `.kafka_cleanshutdown` is away"
    ),
    "a journal gets its name": "its folder, and the staged files that it names",
    "the mark comes back": (
        "all logs, indexes, snapshots, epochs and checkpoints of the directory; after a failed "
        "append or flush it stays away"
    ),
    "a journal goes": ("the logs that its steps made, the checkpoints and `.segmentlog-versions`"),
}
"""What the architecture page says of them: before this, that lasts."""

MARK_NAME = ".kafka_cleanshutdown"
UNSYNCED = (".segmentlog-tail",)
SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex")
KEPT = (*SEGMENT_FILES, ".snapshot", "leader-epoch-checkpoint", "partition.metadata")


class RuleBrokenError(AssertionError):
    """An operation came before what it depends on lasted."""


class RuleKeeper(Disk):
    """A `Disk` that compares every operation with the rules."""

    def __init__(self, root: Path, links: Path) -> None:
        super().__init__(root, links)
        self.checked: dict[str, int] = {}
        self._paths: dict[int, str] = {}

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Check an operation that is about to be done."""
        if name in ("write_all", "truncate"):
            self._check_change(os.readlink(f"/proc/self/fd/{arguments[0]}"))
        elif name == "copy_range":
            self._check_change(os.readlink(f"/proc/self/fd/{arguments[1]}"))
        elif name == "rename":
            self._check_rename(*arguments)
        elif name == "unlink" and os.path.basename(arguments[0]) == JOURNAL_FILE_NAME:
            self._check_end(arguments[0])

    def _check_change(self, path: str) -> None:
        if not path.endswith(SEGMENT_FILES):
            return
        folder = os.path.dirname(os.path.dirname(path))
        self._hold("change in place", MARK_NAME not in self.synced_names(folder), path)

    def _check_rename(self, source: str, target: str) -> None:
        folder, name = os.path.split(target)
        if name == MARK_NAME:
            for path in _kept_files(folder):
                self._hold("mark", self.lasts(path), path)
        if name == JOURNAL_FILE_NAME:
            log_directory = os.path.dirname(folder)
            names = self.synced_names(log_directory)
            self._hold("journal folder", names.get(COMMIT_DIRECTORY_NAME) == FOLDER, target)
            for staged in _staged_names(source):
                path = os.path.join(log_directory, staged)
                if os.path.exists(path):
                    self._hold("journal staging", self.lasts(path), path)
        may_be_lost = name.startswith(UNSYNCED) or (
            name.endswith((".index", ".timeindex")) and not self._has_mark_to_come(folder)
        )
        if not may_be_lost:
            self._hold("rename", self.has_synced_bytes(source), source)

    def _has_mark_to_come(self, folder: str) -> bool:
        return os.path.exists(os.path.join(os.path.dirname(folder), MARK_NAME))

    def _check_end(self, path: str) -> None:
        if not os.path.exists(path):
            return
        body = Path(path).read_bytes().partition(b"\n")[2]
        fields = json.loads(body)
        if fields["phase"] == "prepared":
            return
        log_directory = os.path.dirname(os.path.dirname(path))
        for plan in fields["partitions"]:
            folder = os.path.join(log_directory, f"{plan['topic']}-{plan['partition']}")
            for segment in plan["segments"]:
                log = os.path.join(folder, f"{segment['base_offset']:020d}.log")
                self._hold("journal end", self.lasts(log), log)

    def _hold(self, rule: str, is_kept: bool, path: str) -> None:
        self.checked[rule] = self.checked.get(rule, 0) + 1
        if not is_kept:
            raise RuleBrokenError(f"{rule}: {path}")


def _kept_files(log_directory: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(log_directory):
        for name in names:
            is_kept = name.endswith(KEPT) or (
                folder == log_directory and name.endswith("-checkpoint")
            )
            if is_kept:
                found.append(os.path.join(folder, name))
    return found


def _staged_names(journal: str) -> list[str]:
    fields = json.loads(Path(journal).read_bytes().partition(b"\n")[2])
    return list(fields["staged"])

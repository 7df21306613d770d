"""Single faults of a real log: what a disk, a copy or a hand can do to one file, drawn by a seed.

A fault is plain data, so that a failing one can be printed, repeated and handed on. It is applied
to a copy whose files are hard links to those of the original: what it touches is written again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np

from spark_segmentlog.log.formats.checkpoints import parse_offset_checkpoint
from spark_segmentlog.record.read.header_table import HeaderTable, scan_headers

WHOLE: Final = 1 << 62
SHOWN_BYTES: Final = 1 << 16

FIELDS_V2: Final = {
    "base offset": (0, 8),
    "batch length": (8, 4),
    "leader epoch": (12, 4),
    "magic": (16, 1),
    "crc": (17, 4),
    "attributes": (21, 2),
    "last offset delta": (23, 4),
    "base timestamp": (27, 8),
    "max timestamp": (35, 8),
    "producer id": (43, 8),
    "producer epoch": (51, 2),
    "base sequence": (53, 4),
    "records count": (57, 4),
}
FIELDS_V1: Final = {
    "base offset": (0, 8),
    "batch length": (8, 4),
    "crc": (12, 4),
    "magic": (16, 1),
    "attributes": (17, 1),
    "timestamp": (18, 8),
}
FIELDS_V0: Final = {name: place for name, place in FIELDS_V1.items() if name != "timestamp"}
HEADER_BYTES: Final = {0: 18, 1: 26, 2: 61}
FIELDS: Final = {0: FIELDS_V0, 1: FIELDS_V1, 2: FIELDS_V2}

PARTITION_FILES: Final = (
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
TOP_FILES: Final = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
)


class Damage(StrEnum):
    """What happens to a file."""

    FLIP = "flip"
    CUT = "cut"
    ZERO = "zero"
    REMOVE = "remove"
    SWAP = "swap"
    WRITE = "write"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one file of a log directory.

    Attributes
    ----------
    kind : str
        What it is an example of.
    path : str
        Below the log directory.
    position, length : int
        Bytes of the file; with `FLIP` the length is the number of the bit.
    other : str
        With `SWAP`, the file that it changes places with.
    data : bytes
        With `WRITE`, what the file then holds.
    """

    kind: str
    path: str
    damage: Damage
    position: int = 0
    length: int = 0
    other: str = ""
    data: bytes = field(default=b"", repr=False)

    @property
    def is_of_directory(self) -> bool:
        """Whether the other partitions and log directories of the broker tell of it too."""
        return "/" not in self.path or self.path.endswith("/partition.metadata")

    def apply(self, log_directory: Path) -> None:
        """Do it to a copy."""
        path = log_directory / self.path
        if self.damage is Damage.FOLDER:
            path.mkdir()
            return
        before = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
        if self.damage is Damage.SWAP:
            other = log_directory / self.other
            path.write_bytes(other.read_bytes())
            other.unlink()
            other.write_bytes(before)
        elif self.damage is not Damage.REMOVE:
            path.write_bytes(self.changed(before))

    def changed(self, before: bytes) -> bytes:
        """Give the bytes of the file after it."""
        position = self.position
        if self.damage is Damage.WRITE:
            return self.data
        if self.damage is Damage.CUT:
            return before[:position]
        if self.damage is Damage.ZERO:
            end = min(position + self.length, len(before))
            return before[:position] + bytes(end - position) + before[end:]
        flipped = before[position] ^ 1 << self.length
        return before[:position] + bytes([flipped]) + before[position + 1 :]

    def changes(self, log_directory: Path) -> bool:
        """Tell whether anything is different after it."""
        path = log_directory / self.path
        if self.damage is Damage.SWAP:
            return path.read_bytes() != (log_directory / self.other).read_bytes()
        if self.damage in (Damage.REMOVE, Damage.FOLDER) or not path.exists():
            return True
        before = path.read_bytes()
        return self.changed(before) != before

    def touches(self, path: str, position: int, size_bytes: int) -> bool:
        """Tell whether it changes some of these bytes of a file."""
        if path not in (self.path, self.other):
            return False
        if self.damage in (Damage.REMOVE, Damage.SWAP, Damage.WRITE):
            return True
        length = {Damage.CUT: WHOLE, Damage.FLIP: 1}.get(self.damage, self.length)
        return self.position < position + size_bytes and position < self.position + length


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """One partition of a real log, and what lies at the top of its log directory.

    Attributes
    ----------
    tables : mapping
        Headers of the batches, by the path of their `.log` below the log directory.
    """

    name: str
    log_directory: Path
    partition: str
    tables: Mapping[str, HeaderTable]

    @property
    def is_clean(self) -> bool:
        """Whether the broker was stopped."""
        return (self.log_directory / ".kafka_cleanshutdown").exists()

    @property
    def recovery_point(self) -> int:
        """Offset below which all was flushed."""
        path = self.log_directory / "recovery-point-offset-checkpoint"
        points = parse_offset_checkpoint(path.read_text()) or {}
        return {str(partition): offset for partition, offset in points.items()}.get(
            self.partition, 0
        )

    @property
    def end_offset(self) -> int:
        """Offset after the last batch."""
        return max(int(table.last_offset[-1]) + 1 for table in self.tables.values() if len(table))

    @property
    def ends(self) -> dict[str, int]:
        """Ends of all partitions of the log directory, by their high watermarks.

        One replica each, and nothing was appended for some seconds before the end.
        """
        text = (self.log_directory / "replication-offset-checkpoint").read_text()
        return {
            str(partition): offset
            for partition, offset in (parse_offset_checkpoint(text) or {}).items()
        }

    @property
    def are_checkpoints_written(self) -> bool:
        """Whether the broker ran long enough to write those that it writes every minute."""
        written = [name for name in TOP_FILES[:3] if self.size(name)]
        return len(written) == len(TOP_FILES[:3])

    @property
    def has_metadata(self) -> bool:
        """Whether the cluster's metadata log is in one of the broker's directories."""
        return any(
            (log_directory / "__cluster_metadata-0").exists()
            for log_directory in self.log_directories
        )

    def end_of_segment(self, path: str) -> int:
        """Give the offset at which the next segment starts, or the log ends."""
        bases = [int(Path(log).stem) for log in self.logs]
        return min((base for base in bases if base > int(Path(path).stem)), default=self.end_offset)

    @property
    def logs(self) -> list[str]:
        """The `.log` files, in the order of their offsets."""
        return sorted(self.tables)

    def files(self, ending: str) -> list[str]:
        """List the partition's files of one kind."""
        paths = sorted((self.log_directory / self.partition).iterdir())
        return [f"{self.partition}/{path.name}" for path in paths if path.name.endswith(ending)]

    def size(self, path: str) -> int:
        """Measure a file."""
        return (self.log_directory / path).stat().st_size

    @property
    def log_directories(self) -> list[Path]:
        """All log directories of the broker."""
        return sorted(path for path in self.log_directory.parent.iterdir() if path.is_dir())

    def copy(self, target: Path, *, whole: bool = False) -> list[Path]:
        """Make a copy, as hard links, of the partition and the files at the top of its directory.

        With `whole`, of all that the broker has. Gives the log directories, that of the partition
        first.
        """
        copies = [target / self.log_directory.name]
        (copies[0] / self.partition).mkdir(parents=True)
        _link_files(self.log_directory, copies[0])
        _link_files(self.log_directory / self.partition, copies[0] / self.partition)
        for path in self.log_directories if whole else ():
            if path != self.log_directory:
                copies.append(target / path.name)
            for folder in path.iterdir():
                beside = target / path.name / folder.name
                if folder.is_dir() and not beside.exists():
                    beside.mkdir(parents=True)
                    _link_files(folder, beside)
            if path != self.log_directory:
                _link_files(path, copies[-1])
        return copies


def _link_files(source: Path, target: Path) -> None:
    for path in source.iterdir():
        if path.is_file():
            os.link(path, target / path.name)


def open_original(name: str, log_directory: Path, partition: str) -> Original:
    """Look at the headers of a partition's batches."""
    tables = {}
    for path in sorted((log_directory / partition).glob("*.log")):
        data = np.frombuffer(path.read_bytes(), np.uint8)
        tables[f"{partition}/{path.name}"] = scan_headers(data, 0, len(data), file_position=0)
    return Original(name=name, log_directory=log_directory, partition=partition, tables=tables)


class FaultSource:
    """Draws faults.

    Most of a log directory are batches, so most faults are theirs: of three flipped bits two are in
    headers, where each field is drawn as often, one in a payload. One fault in thirty is of another
    kind of file, or of a whole file; each kind of file, and what can happen to it, is drawn as
    often.
    """

    def __init__(self, chance: random.Random, originals: Sequence[Original]) -> None:
        self._chance = chance
        self._originals = originals
        self._draws: list[tuple[int, Callable[[Original], Fault | None]]] = [
            (40, self._flip_field),
            (15, self._flip_payload),
            (15, self._cut_log),
            (15, self._zero_log),
            (3, self._file),
            (3, self._foreign),
        ]

    def faults(self) -> Iterator[tuple[Original, Fault]]:
        """Draw one after the other, without an end; each changes something."""
        weights = [weight for weight, _ in self._draws]
        while True:
            original = self._chance.choice(self._originals)
            ((_, draw),) = self._chance.choices(self._draws, weights)
            fault = draw(original)
            if fault is not None and fault.changes(original.log_directory):
                yield original, fault

    def _batch(self, original: Original) -> tuple[str, HeaderTable, int]:
        path = self._chance.choice([log for log in original.logs if len(original.tables[log])])
        table = original.tables[path]
        return path, table, self._chance.randrange(len(table))

    def _flip_field(self, original: Original) -> Fault:
        path, table, row = self._batch(original)
        fields = FIELDS[int(table.magic[row])]
        name = self._chance.choice(list(fields))
        start, length = fields[name]
        return Fault(
            kind=f"flip {name}",
            path=path,
            damage=Damage.FLIP,
            position=int(table.position[row]) + start + self._chance.randrange(length),
            length=self._chance.randrange(8),
        )

    def _flip_payload(self, original: Original) -> Fault | None:
        path, table, row = self._batch(original)
        start = int(table.position[row]) + HEADER_BYTES[int(table.magic[row])]
        end = int(table.position[row] + table.size_bytes[row])
        if start >= end:
            return None
        position = self._chance.randrange(start, end)
        bit = self._chance.randrange(8)
        return Fault(
            kind="flip payload", path=path, damage=Damage.FLIP, position=position, length=bit
        )

    def _cut_log(self, original: Original) -> Fault:
        path, table, row = self._batch(original)
        which = "active" if path == original.logs[-1] else "closed"
        if self._chance.random() < 0.1:
            kind, position = f"cut {which} at a batch", int(table.position[row])
        else:
            kind = f"cut {which} anywhere"
            position = self._chance.randrange(int(table.end_position))
        return Fault(kind=kind, path=path, damage=Damage.CUT, position=position)

    def _zero_log(self, original: Original) -> Fault:
        path, table, row = self._batch(original)
        position, size_bytes = int(table.position[row]), int(table.size_bytes[row])
        which = "active" if path == original.logs[-1] else "closed"
        draw = self._chance.random()
        if draw < 0.1:
            length = int(table.end_position) - position
            return self._zeros(f"zero {which} from a batch on", path, position, length)
        if draw < 0.3:
            return self._zeros(f"zero a batch of {which}", path, position, size_bytes)
        start = position + self._chance.randrange(size_bytes)
        length = self._chance.choice([8, 64, 512, 4096])
        return self._zeros(f"zero a range of {which}", path, start, length)

    def _zeros(self, kind: str, path: str, position: int, length: int) -> Fault:
        return Fault(kind=kind, path=path, damage=Damage.ZERO, position=position, length=length)

    def _file(self, original: Original) -> Fault | None:
        """Draw one of all kinds of files, and one of those."""
        kind = self._chance.choice([".log", *PARTITION_FILES, *TOP_FILES])
        files = [kind] if kind in TOP_FILES else original.files(kind)
        path = self._chance.choice(files or [""])
        if not path or not (original.log_directory / path).exists():
            return None
        if kind != ".log" and original.size(path) and self._chance.random() < 0.5:
            return self._bytes_of(original, path, kind)
        return self._replace(original, path, kind)

    def _bytes_of(self, original: Original, path: str, kind: str) -> Fault:
        """Flip a bit, cut or zero a file that is no log, where something stands in it."""
        data = (original.log_directory / path).read_bytes()[:SHOWN_BYTES]
        used = len(data.rstrip(b"\0")) or len(data)
        position = self._chance.randrange(used)
        draw = self._chance.random()
        if draw < 0.5:
            bit = self._chance.randrange(8)
            return Fault(
                kind=f"flip {kind}", path=path, damage=Damage.FLIP, position=position, length=bit
            )
        if draw < 0.75:
            return Fault(kind=f"cut {kind}", path=path, damage=Damage.CUT, position=position)
        return self._zeros(f"zero {kind}", path, 0, WHOLE)

    def _replace(self, original: Original, path: str, kind: str) -> Fault | None:
        peers = [] if kind in TOP_FILES else [file for file in original.files(kind) if file != path]
        donor = self._chance.choice(self._originals)
        if kind in TOP_FILES:
            return self._of_choice(path, kind, peers, donor.log_directory / path)
        theirs = donor.files(kind) if donor.partition != original.partition else []
        foreign = donor.log_directory / self._chance.choice(theirs) if theirs else None
        return self._of_choice(path, kind, peers, foreign)

    def _of_choice(
        self, path: str, kind: str, peers: list[str], foreign: Path | None
    ) -> Fault | None:
        way = self._chance.choice(["remove", "empty", "swap", "foreign"])
        if way == "remove":
            return Fault(kind=f"remove {kind}", path=path, damage=Damage.REMOVE)
        if way == "empty":
            return Fault(kind=f"empty {kind}", path=path, damage=Damage.CUT)
        if way == "swap" and peers:
            other = self._chance.choice(peers)
            return Fault(kind=f"swap {kind}", path=path, damage=Damage.SWAP, other=other)
        if way == "foreign" and foreign is not None and foreign.exists():
            data = foreign.read_bytes()
            return Fault(kind=f"foreign {kind}", path=path, damage=Damage.WRITE, data=data)
        return None

    def _foreign(self, original: Original) -> Fault:
        """Add a file or folder that a broker did not make and does not bear."""
        folder = Fault(kind="foreign folder", path="lost+found", damage=Damage.FOLDER)
        name = self._chance.choice(["notes.log", "backup.index", "old.timeindex", "x.snapshot"])
        file = Fault(
            kind="foreign file",
            path=f"{original.partition}/{name}",
            damage=Damage.WRITE,
            data=b"not a broker's\n",
        )
        return self._chance.choice([folder, replace(folder, path="backup"), file, file])

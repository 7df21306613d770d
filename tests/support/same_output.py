"""Whether two states of the package do the same with every log at hand.

::

    python same_output.py snapshot FILE    # digests of all that the package makes of the logs
    python same_output.py compare OLD NEW  # what differs between two such files

A snapshot has, for each log directory: its rows, every view, what the verbs that only look print,
and every byte of the directories that the other verbs leave of a copy, or that the appender and the
sink write from its rows. Clock and ids are fixed. ``make same-output`` takes both, of the checkout
and of an older commit.

It takes the package from ``PYTHONPATH``, so this file imports nothing else of the project, and of
the package only what a user may rely on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from click.testing import CliRunner
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from spark_segmentlog import open_log, read_arrow
from spark_segmentlog.cli.main import main as segmentlog
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.spark.datasource import SegmentLogDataSource

PROJECT: Final = Path(__file__).parents[2]
SOURCES: Final = (
    PROJECT / "tests" / "data",
    *(PROJECT.parent / "shared" / name for name in ("kafka-logs", "real-logs", "tiered-logs")),
)
NOW_MS: Final = 1_800_000_000_000
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
VIEWS: Final = (
    "batches",
    "segments",
    "transactions",
    "consumer_offsets",
    "transaction_state",
    "cluster_metadata",
    "share_group_state",
)
DUMPED: Final = ("--records", "--include-control", "--indexes", "--snapshots", "--transactions")
LOOKS: Final = {
    "dump": ("dump", *DUMPED),
    "dump --decode": ("dump", "--decode"),
    "verify": ("verify", "--deep"),
    "preflight": ("preflight",),
    "ls": ("ls", "--segments", "--include-deleted"),
    "lag": ("lag",),
}
CHANGES: Final = {
    "recovered": ("recover", "--apply", "--delete-later-segments"),
    "reindexed": ("reindex",),
    "retained": (
        "retain",
        *("--all-topics", "--force", "--allow-replicated"),
        *("--retention-ms=-1", "--retention-bytes=8000", "--file-delete-delay-ms=0"),
    ),
    "compacted": (
        "compact",
        *("--all-topics", "--force", "--allow-replicated", "--file-delete-delay-ms=0"),
        *("--delete-retention-ms=0", "--min-compaction-lag-ms=0"),
    ),
}
SEGMENT_BYTES: Final = 100_000
BATCH_BYTES: Final = 8_000
_LOCKS: Final = (".lock", ".segmentlog-writer")
_PARTITION: Final = re.compile(r".+-\d+")

Snapshot = dict[str, str]


def snapshot() -> Snapshot:
    """Make the digests of every log; what fails is there by the error's text."""
    found: Snapshot = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _fixed_clock():
        for source in filter(Path.is_dir, SOURCES):
            _unpack(source, Path(source.name))
        for directory in sorted(_log_directories(Path())):
            print(directory, file=sys.stderr)
            for name, digest in _digests(directory):
                found[f"{directory}: {name}"] = digest
    return found


def differences(old: Snapshot, new: Snapshot) -> list[str]:
    """Tell by name what one snapshot lacks or has with another digest, a line each."""
    return [
        f"{name}\n  old: {old.get(name, 'nothing')}\n  new: {new.get(name, 'nothing')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _digests(directory: Path) -> Iterator[tuple[str, str]]:
    remote = _remote_options(directory)
    for level in ISOLATION_LEVELS:
        options = {"kafka_isolation_level": level, "include_headers": True, "mode": "DROPMALFORMED"}
        yield f"rows, {level}", _of_table(directory, **options)
        if remote:
            yield f"rows, {level}, with the store", _of_table(directory, **options, **remote)
    yield "rows, FAILFAST", _of_table(directory)
    for view in VIEWS:
        yield f"view {view}", _of_table(directory, view=view)
    for name, arguments in LOOKS.items():
        for form in ("text", "json"):
            yield f"{name}, {form}", _run(*arguments, f"--format={form}", str(directory))
    for name, arguments in CHANGES.items():
        with _copy(directory) as copy:
            yield name, _run(*arguments, "--format=json", str(copy))
            yield from _of_files(name, copy)
    for topic, table in _rows_by_topic(directory):
        for codec in CODECS:
            for name, write in (("appended", _append), ("committed", _commit)):
                yield from _written(f"{name}, {codec}, {topic}", write, table, topic, codec)


# What is looked at


def _unpack(source: Path, target: Path) -> None:
    """Copy a folder of logs, archives unpacked where they lie."""
    shutil.copytree(source, target)
    for archive in sorted(target.rglob("*.tar.gz")):
        subprocess.run(["tar", "-xzSf", archive.name], cwd=archive.parent, check=True)


def _log_directories(folder: Path) -> Iterator[Path]:
    """Find the folders that hold folders of partitions with a log."""
    for path in folder.rglob("*"):
        if path.is_dir() and any(
            _PARTITION.fullmatch(log.parent.name) for log in path.glob("*/*.log")
        ):
            yield path


def _remote_options(directory: Path) -> dict[str, Any]:
    """Tell where the segments of a broker with tiered storage lie: beside its log directory."""
    store = directory.parent / "remote"
    if not store.is_dir() or store in directory.parents:
        return {}
    prefixed = sorted((store / "tier").glob("*"))
    pairs = (directory.parent / "TEST-KEYS").glob("*.private.pem")
    keys = {path.name.removesuffix(".private.pem"): str(path) for path in pairs}
    options = {"remote_storage": str(prefixed[0] if prefixed else store)}
    return {**options, "remote_storage_keys": keys} if keys else options


def _of_table(directory: Path, **options: Any) -> str:
    """Make a digest of rows, whatever Arrow batches they came in."""
    try:
        with warnings.catch_warnings(action="ignore"):
            table = read_arrow(directory, **options).read_all()
    except SegmentLogError as error:
        return _without_folders(f"{type(error).__name__}: {error}")
    # The columns of paths are relative to the folder that the snapshot works in.
    return _digest(f"{table.schema}\n{table.to_pylist()}")


def _run(*arguments: str) -> str:
    """Make a digest of what a verb prints, without the time that it took."""
    with _fixed_ids():
        result = CliRunner().invoke(segmentlog, arguments)
    if result.exit_code == 2 or not isinstance(result.exception, SystemExit | None):
        return f"exit code {result.exit_code}: {_without_folders(result.output)}"
    output = re.sub(r'"seconds":\s*[\d.]+|in [\d.]+ s$', "", result.output, flags=re.MULTILINE)
    return f"exit code {result.exit_code}, {_digest(output)}"


def _of_files(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in _LOCKS:
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()[:16]
            yield f"{name}: {path.relative_to(folder)}", f"{len(data)} bytes, {digest}"


def _digest(text: str) -> str:
    return hashlib.sha256(_without_folders(text).encode(errors="replace")).hexdigest()[:16]


def _without_folders(text: str) -> str:
    """Leave out the path of the folder that the snapshot works in, in JSON too."""
    folder = f"{Path.cwd()}/"
    return text.replace(folder, "").replace(json.dumps(folder)[1:-1], "")


# What is written


@contextlib.contextmanager
def _copy(directory: Path) -> Iterator[Path]:
    """Give a copy of a log directory, at a path that is the same in every snapshot."""
    copy = Path("copy")
    shutil.copytree(directory, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def _rows_by_topic(directory: Path) -> Iterator[tuple[str, pa.Table]]:
    with warnings.catch_warnings(action="ignore"):
        try:
            table = read_arrow(directory, include_headers=True, mode="DROPMALFORMED").read_all()
        except SegmentLogError:  # told by the digest of the rows
            return
    topics = table["topic"]
    for topic in sorted(topics.unique().to_pylist()):
        mask = pa.array([name == topic for name in topics.to_pylist()])
        yield topic, table.filter(mask)


def _written(
    name: str,
    write: Callable[[pa.Table, str, str, str], None],
    table: pa.Table,
    topic: str,
    codec: str,
) -> Iterator[tuple[str, str]]:
    with _fixed_ids(), tempfile.TemporaryDirectory(dir=".") as target:
        try:
            write(table, topic, codec, target)
        except SegmentLogError as error:
            yield name, _without_folders(f"{type(error).__name__}: {error}")
        yield from _of_files(name, Path(target))


def _append(table: pa.Table, topic: str, codec: str, target: str) -> None:
    columns = table.select(["key", "value", "headers", "timestamp"])
    with open_log(
        target,
        compression_type=codec,
        segment_bytes=SEGMENT_BYTES,
        batch_size=BATCH_BYTES,
        num_partitions=2,
    ) as log:
        for batch in columns.to_batches(max_chunksize=500):
            log.append(topic, batch)


def _commit(table: pa.Table, topic: str, codec: str, target: str) -> None:
    """Write as Spark does: a writer, two tasks, one commit."""
    options = {
        "path": target,
        "topic": topic,
        "compression.type": codec,
        "segment.bytes": str(SEGMENT_BYTES),
        "batch.size": str(BATCH_BYTES),
    }
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=False)
    writer: Any = SegmentLogDataSource(options).writer(schema, overwrite=False)
    half = table.num_rows // 2
    messages = []
    for task, rows in enumerate((table.slice(0, half), table.slice(half))):
        context = SimpleNamespace(
            partitionId=lambda task=task: task,
            taskAttemptId=lambda task=task: task,
            getLocalProperty=lambda _: None,
        )
        with mock.patch.object(TaskContext, "get", return_value=context):
            messages.append(writer.write(iter(rows.to_batches(max_chunksize=1000))))
    writer.commit(messages)


@contextlib.contextmanager
def _fixed_clock() -> Iterator[None]:
    with (
        mock.patch.object(time, "time_ns", return_value=NOW_MS * 1_000_000),
        mock.patch.object(time, "time", return_value=NOW_MS / 1000),
    ):
        yield


@contextlib.contextmanager
def _fixed_ids() -> Iterator[None]:
    """Let ids of topics and writes count up from one."""
    numbers = count(1)
    with mock.patch.object(uuid, "uuid4", side_effect=lambda: uuid.UUID(int=next(numbers))):
        yield


# The command


def _write_snapshot(path: str) -> int:
    logging.disable()
    Path(path).write_text(json.dumps(snapshot(), indent=1, sort_keys=True))
    return 0


def _compare(old: str, new: str) -> int:
    before, after = (json.loads(Path(path).read_text()) for path in (old, new))
    lines = differences(before, after)
    print("\n".join([*lines, f"{len(lines)} of {len(after)} differ"]))
    return 1 if lines else 0


_VERBS: Final[Mapping[str, Callable[..., int]]] = {"snapshot": _write_snapshot, "compare": _compare}


def main(arguments: Sequence[str]) -> int:
    """Run one of the two verbs."""
    verb, *paths = arguments
    return _VERBS[verb](*(os.path.abspath(path) for path in paths))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

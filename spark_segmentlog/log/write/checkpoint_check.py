"""What a broker would stop at, or forget by, in the checkpoints of a log directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Set
from typing import Final

from spark_segmentlog.log.findings import GOES_OFFLINE, Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    CLEAN_SHUTDOWN_MARK,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    has_offset_rows,
    malformed_rows,
    parse_offset_checkpoint,
    read_text,
)
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.directory_check import (
    OFFSET_CHECKPOINTS,
    DirectoryContents,
    owner_finding,
)
from spark_segmentlog.record.system.topics import CLUSTER_METADATA

OF_NO_NUMBERS: Final = {
    LOG_START_OFFSET_CHECKPOINT: "a broker takes it for empty: what was deleted comes back",
    RECOVERY_POINT_CHECKPOINT: "a broker takes it for empty",
    CLEANER_OFFSET_CHECKPOINT: "a thread of a broker's log cleaner dies",
    HIGH_WATERMARK_CHECKPOINT: "a broker starts, and serves no partition of the log directory",
}


def unreadable_checkpoints(
    log_directory: str, texts: Mapping[str, str | None]
) -> Iterator[Finding]:
    """Find offset checkpoints of a log directory that cannot be read."""
    for name, text in texts.items():
        if text and parse_offset_checkpoint(text) is None:
            has_rows = has_offset_rows(text)
            yield Finding(
                kind=FindingKind.CHECKPOINT,
                path=os.path.join(log_directory, name),
                detail=malformed_rows(has_rows=has_rows),
                # A broker forgives what is no number in some of them.
                broker=OF_NO_NUMBERS.get(name, GOES_OFFLINE) if has_rows else GOES_OFFLINE,
                # Written again, it would forget where the other partitions start.
                refuses_writes=name == LOG_START_OFFSET_CHECKPOINT,
            )


def wrong_checkpoints(
    directory: DirectoryContents, strangers: Set[TopicPartition]
) -> Iterator[Finding]:
    """Find offset checkpoints of a broker's directory that do not speak of what lies in it.

    Strangers are partitions of which it was told already that they do not belong there.

    A broker makes all four when it starts, and writes three of them every minute. One that is
    stopped has written where its logs end and what was flushed, of all but the metadata log.
    """
    path, texts = directory.path, directory.checkpoints
    if META_PROPERTIES not in directory.files:
        if all(texts.values()):
            yield owner_finding(path, "is missing beside a broker's checkpoints")
        return
    missing = [name for name, text in texts.items() if text is None]
    written = [texts[name] for name in OFFSET_CHECKPOINTS if name != CLEANER_OFFSET_CHECKPOINT]
    empty = [name for name, text in texts.items() if text == ""]
    if len(missing) == 1:
        yield _wrong_checkpoint(path, missing[0], "is missing beside the other three")
    if sum(map(bool, written)) == len(written) - 1:
        for name in set(empty) - {CLEANER_OFFSET_CHECKPOINT}:
            yield _wrong_checkpoint(path, name, "is empty, and the others are written")
    own = {known for known in directory.partitions - strangers if known.topic != CLUSTER_METADATA}
    expected = own if directory.is_stopped else set()
    for name, text in texts.items():
        offsets = parse_offset_checkpoint(text) if text else None
        if offsets is None:
            continue
        is_of_all = name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
        for what, found in (
            ("a negative offset of", {known for known, offset in offsets.items() if offset < 0}),
            ("no offset of", expected - set(offsets) if is_of_all else set()),
            (
                "an offset of a partition that is not here,",
                set(offsets) - directory.partitions if directory.is_stopped else set(),
            ),
        ):
            if found:
                more = f" and {len(found) - 1} more" if len(found) > 1 else ""
                yield _wrong_checkpoint(path, name, f"has {what} {min(found)}{more}")
                break


def _wrong_checkpoint(directory: str, name: str, detail: str) -> Finding:
    path = os.path.join(directory, name)
    return Finding(kind=FindingKind.OFFSET_CHECKPOINT, path=path, detail=detail)


def wrong_mark(directory: str) -> Iterator[Finding]:
    """Find a mark of a clean stop that no broker wrote; older ones left it empty."""
    path = os.path.join(directory, CLEAN_SHUTDOWN_MARK)
    text = read_text(LOCAL, directory, CLEAN_SHUTDOWN_MARK)
    if not text:
        return
    try:
        is_right = isinstance(json.loads(text), dict)
    except ValueError:
        is_right = False
    if not is_right:
        yield Finding(
            kind=FindingKind.CLEAN_MARK,
            path=path,
            detail="is neither empty nor a JSON object",
            broker="a broker takes it for one all the same",
        )

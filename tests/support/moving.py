"""Files that are renamed at the moment when a reader comes to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log.upkeep.swap import replace_segments
from spark_segmentlog.testing.builder import (
    offset_index_bytes,
    segment_file_name,
    time_index_bytes,
)
from tests.support.running import batches

KINDS = (".log", ".index", ".timeindex")


def when_touched(monkeypatch: pytest.MonkeyPatch, path: Path, act: Callable[[], None]) -> list[str]:
    """Act once, right before a file is opened or measured for the first time; tells that it did."""
    done: list[str] = []

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *args: Any, **keywords: Any) -> Any:
            if str(target) == str(path) and not done:
                done.append(str(path))
                act()
            return real(target, *args, **keywords)

        return call

    for name in ("open", "stat"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    return done


def merge(directory: Path, base_offsets: Sequence[int], merged: Sequence[bytes]) -> None:
    """Put one segment of these batches in the place of some, by the renames of a cleaner."""
    first = base_offsets[0]
    files = {
        ".log": b"".join(merged),
        ".index": offset_index_bytes(merged, first),
        ".timeindex": time_index_bytes(merged, first),
    }
    for kind, data in files.items():
        (directory / f"{segment_file_name(first, kind)}.cleaned").write_bytes(data)
    replace_segments(str(directory), new_base_offsets=[first], old_base_offsets=list(base_offsets))


def merge_in_between(monkeypatch: pytest.MonkeyPatch, directory: Path) -> list[str]:
    """Let segments 10 and 20 become one when a reader comes to the second of them."""
    return when_touched(
        monkeypatch,
        directory / segment_file_name(20),
        lambda: merge(directory, (10, 20), batches(20, base_offset=10)),
    )


def delete(directory: Path, base_offset: int) -> None:
    """Take a segment away, as retention does."""
    for kind in KINDS:
        path = directory / segment_file_name(base_offset, kind)
        path.rename(f"{path}.deleted")

"""Files of whole segments: what is renamed, and what is unlinked."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log import names
from spark_segmentlog.log.names import FILE_KINDS, FileKind, segment_file_name
from spark_segmentlog.log.upkeep.swap import mark_segment_deleted, sweep_deleted


def test_an_added_kind_of_file_goes_with_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = FileKind(".bloom", "keys", "nobody", "nobody")
    monkeypatch.setattr(names, "FILE_KINDS", (*FILE_KINDS, added))
    folder = tmp_path / "t-0"
    folder.mkdir()
    suffixes = (".log", ".index", ".bloom", ".snapshot", ".other")
    for suffix in suffixes:
        (folder / segment_file_name(0, suffix)).write_bytes(b"x")
    mark_segment_deleted(str(folder), 0)
    stay = [segment_file_name(0, suffix) for suffix in (".other", ".snapshot")]
    renamed = [segment_file_name(0, f"{suffix}.deleted") for suffix in (".bloom", ".index", ".log")]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*stay, *renamed])
    sweep_deleted(str(folder), now_ms=2**62, delay_ms=0)
    assert sorted(path.name for path in folder.iterdir()) == stay

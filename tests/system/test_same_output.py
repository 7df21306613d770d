"""The script that compares what two states of the package make of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.query.read_options import View
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support import same_output
from tests.support.same_output import Snapshot, differences


def make_log(folder: Path, value: bytes) -> None:
    records = [RecordSpec(key=b"k", value=value, timestamp_ms=1_000) for _ in range(2)]
    segments = [[v2_batch(records, base_offset=first)] for first in (0, 2)]
    log = LogBuilder(folder / "logs" / "d0")
    log.partition("t", 0, segments)
    log.clean_shutdown()


def snapshot(monkeypatch: pytest.MonkeyPatch, folder: Path, value: bytes) -> Snapshot:
    make_log(folder, value)
    monkeypatch.setattr(same_output, "SOURCES", (folder / "logs", folder / "not-at-hand"))
    monkeypatch.setattr(same_output, "CODECS", ("none",))
    return same_output.snapshot()


def test_a_snapshot_is_the_same_again_and_tells_another_value(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, again, other = (
        snapshot(monkeypatch, tmp_path / name, value)
        for name, value in (("first", b"v"), ("again", b"v"), ("other", b"w"))
    )
    assert differences(first, again) == []
    differ = "\n".join(differences(first, other))
    for name in (
        "logs/d0: rows, read_committed\n",
        "logs/d0: dump, text\n",
        "logs/d0: compacted: t-0/00000000000000000000.log\n",
        "logs/d0: appended, none, t: t-0/00000000000000000000.log\n",
        "logs/d0: committed, none, t: t-0/00000000000000000000.log\n",
    ):
        assert name in differ
    assert "verify, json" not in differ


def test_what_one_snapshot_lacks_differs() -> None:
    assert differences({"a": "1", "b": "2"}, {"b": "2", "c": "3"}) == [
        "a\n  old: 1\n  new: nothing",
        "c\n  old: nothing\n  new: 3",
    ]


def test_every_view_is_compared() -> None:
    assert {View.RECORDS, *same_output.VIEWS} == set(View)

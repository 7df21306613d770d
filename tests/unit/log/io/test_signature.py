"""What tells a changed file from one that has not changed, and which listing is believed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.io import signature
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.io.signature import FileSignature, list_whole


def listing(path: Path, *shown: list[str]) -> list[str]:
    """List a folder that shows one thing after the other; two that are the same agree."""
    left = list(shown)
    return list_whole(
        LOCAL,
        str(path),
        lambda: left.pop(0) if len(left) > 1 else left[0],
        lambda earlier, found, _: earlier == found,
    )


def test_a_write_changes_a_signature_and_not_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a")
    before = FileSignature.from_path(str(path))
    assert FileSignature.from_path(str(path)) == before
    path.write_bytes(b"ab")
    after = FileSignature.from_path(str(path))
    assert after != before
    assert after.is_same_file(before)
    other = tmp_path / "other"
    other.write_bytes(b"ab")
    assert not FileSignature.from_path(str(other)).is_same_file(after)


def test_what_changed_a_moment_ago_is_not_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(tmp_path, (100, 100))
    found = FileSignature.from_path(str(tmp_path))
    for seconds, is_settled in ((100, False), (102, False), (103, True)):
        monkeypatch.setattr(time, "time_ns", lambda seconds=seconds: seconds * 1_000_000_000)
        assert found.is_settled() == is_settled


def test_a_folder_at_rest_is_believed_at_once(tmp_path: Path) -> None:
    os.utime(tmp_path, (1, 1))
    assert listing(tmp_path, ["a"], ["b"]) == ["a"]


def test_a_folder_that_just_changed_is_believed_when_two_listings_agree(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    assert listing(tmp_path, ["a"], ["b"], ["c"], ["c"]) == ["c"]


def test_a_folder_that_never_rests_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signature, "_MAX_PAUSE_SECONDS", 0)
    monkeypatch.setattr(FileSignature, "is_settled", lambda _: False)
    shown = [[str(number)] for number in range(signature.LISTING_ATTEMPTS + 1)]
    with pytest.raises(SegmentLogError, match="changed during each of 100 listings"):
        listing(tmp_path, *shown)

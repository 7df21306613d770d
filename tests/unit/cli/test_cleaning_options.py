"""What every verb that takes records away wants to be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.running import contents, run
from tests.support.three_days import days


@pytest.mark.parametrize("verb", ["retain", "compact"])
def test_topics_are_named_or_all_asked_for(tmp_path: Path, verb: str) -> None:
    days(tmp_path)
    before = contents(tmp_path)
    for arguments in ([], ["--topic", "t", "--all-topics"]):
        ran = run(verb, tmp_path, *arguments)
        assert ran.exit_code == 2
        assert "name topics by --topic, or give --all-topics" in ran.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize("verb", ["retain", "compact"])
def test_no_default_decides_over_records(tmp_path: Path, verb: str) -> None:
    days(tmp_path)
    before = contents(tmp_path / "t-0")
    ran = run(verb, tmp_path, "--topic", "t")
    assert ran.exit_code == 2
    assert "is not known: no metadata of a cluster tells it; give" in ran.stderr
    assert contents(tmp_path / "t-0") == before

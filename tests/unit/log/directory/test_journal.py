"""The journal of a commit: its bytes, and what is refused of others' bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import (
    CommitPendingError,
)
from spark_segmentlog.log.directory.journal import CommitPhase, Journal, journal_path
from spark_segmentlog.log.io import files
from tests.support.scenarios import make_scenario


def test_the_journal_reads_back_as_it_was(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "copy_range", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "x")))
        with pytest.raises(CommitPendingError):
            scenario.commit()
    for directory in scenario.directories:
        data = Path(journal_path(directory)).read_bytes()
        journal = Journal.from_bytes(data, directory, source="journal")
        assert journal.to_bytes() == data
        assert journal.phase is CommitPhase.DECIDED
        assert journal.in_phase(CommitPhase.VISIBLE).is_visible
        assert str(tmp_path).encode() not in data

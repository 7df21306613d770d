"""Clean-shutdown marks, taken away and put back."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.log.write.clean_marks import put_marks_back, take_marks_away
from spark_segmentlog.testing.builder import LogBuilder


def test_a_mark_comes_back_as_it_was_and_only_where_one_stood(tmp_path: Path) -> None:
    marked, unmarked = tmp_path / "d0", tmp_path / "d1"
    path = LogBuilder(marked).clean_shutdown(446)
    before = path.read_bytes()
    unmarked.mkdir()
    marks = take_marks_away([str(marked), str(unmarked)])
    assert marks == {str(marked): before}
    assert not path.exists()
    put_marks_back(marks)
    assert path.read_bytes() == before
    assert list(unmarked.iterdir()) == []

"""What is drawn on a terminal, and that rich is loaded there alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_segmentlog.cli.output import Column
from spark_segmentlog.cli.terminal import draw_table, progress_bar
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.project import PROJECT
from tests.support.running import batches

COLUMNS = (Column("name", "name"), Column("size", "size", "number"))
TABLE = (COLUMNS, [["[bold]", "1"], ["b", "100"]])


def test_nothing_is_drawn_where_the_output_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert not draw_table(*TABLE, "fold")
    assert capsys.readouterr().out == ""


def test_a_table_is_drawn_with_numbers_to_the_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert draw_table(*TABLE, "fold")
    heading, first, second = capsys.readouterr().out.splitlines()
    assert "name" in heading
    assert (first.split(), second.split()) == (["[bold]", "1"], ["b", "100"])
    assert len(first.rstrip()) == len(second.rstrip())


def test_text_gives_way_where_a_table_is_too_wide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    columns = (*COLUMNS, Column("newest", "newest", "minute"), Column("flags", "flags"))
    row = ["a" * 30, "1234567", "2025-02-11 08:00", "clean,open"]
    assert draw_table(columns, [row], "ellipsis")
    _, line = capsys.readouterr().out.splitlines()
    assert line.split() == ["aaaa\u2026", "1234567", "2025-02-11", "08:00", "clean\u2026"]
    assert len(line.rstrip()) <= 40


def test_a_bar_leaves_the_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("verify", 100) as show:
        show(50)
        print("found")
    assert capsys.readouterr().out == "found\n"


def test_verify_loads_no_rich_where_it_draws_nothing(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [batches(3)])
    program = (
        "import sys\n"
        "from spark_segmentlog.cli.main import main\n"
        "main(['verify', sys.argv[1]], standalone_mode=False)\n"
        "print('rich' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    assert ran.stdout.splitlines()[-1] == "False"

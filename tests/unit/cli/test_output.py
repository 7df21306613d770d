"""What is printed, whatever the terminal can show."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from spark_segmentlog.cli.main import main
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch


def test_what_the_output_cannot_encode_is_escaped(tmp_path: Path) -> None:
    record = RecordSpec(value="\u00e9\u4e2d".encode())
    directory = LogBuilder(tmp_path).partition("t", 0, [[v2_batch([record])]])
    result = CliRunner(charset="ascii").invoke(main, ["dump", str(directory), "--records"])
    assert (result.exit_code, result.exception) == (0, None)
    assert r"payload: \xe9\u4e2d" in result.stdout

"""Runs the command in this process, and reads what it printed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from spark_segmentlog.cli.main import main
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch

NAME = "00000000000000000000"


@dataclass(frozen=True, slots=True)
class Ran:
    """Exit code and both streams of one run."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


def run(*arguments: object, **environment: str) -> Ran:
    """Run the command; an error that it does not expect fails the test."""
    texts = [str(argument) for argument in arguments]
    result = CliRunner().invoke(main, texts, prog_name="segmentlog", env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def objects(*arguments: object, exit_code: int = 0) -> list[dict[str, Any]]:
    """Run the command with JSON output."""
    ran = run(*arguments, "--format", "json")
    assert (ran.exit_code, ran.stderr) == (exit_code, "")
    return ran.objects


def batches(count: int, *, base_offset: int = 0, value: bytes = b"v" * 500) -> list[bytes]:
    """Build batches of one record each."""
    return [
        v2_batch([RecordSpec(value=value, timestamp_ms=1000 + offset)], base_offset=offset)
        for offset in range(base_offset, base_offset + count)
    ]


def flip(path: Path, position: int) -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def contents(directory: Path) -> dict[str, bytes]:
    """Read all files below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def three_segments(path: Path) -> list[Path]:
    log = LogBuilder(path)
    log.partition("t", 0, [batches(5), batches(5, base_offset=5), batches(5, base_offset=10)])
    return sorted((path / "t-0").glob("*.log"))

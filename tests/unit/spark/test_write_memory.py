"""A writing task stays small whatever it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import PROJECT

ALLOWED_BYTES = 400_000_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux alone tells peaks")
@pytest.mark.parametrize(
    ("row_count", "partitions", "value_bytes", "codec"),
    [(2_000_000, 1000, 100, "none"), (3_000_000, 1000, 1, "lz4"), (160, 2, 1_000_000, "zstd")],
)
def test_memory_grows_neither_with_rows_nor_with_partitions(
    tmp_path: Path, row_count: int, partitions: int, value_bytes: int, codec: str
) -> None:
    arguments = [tmp_path / "log", row_count, partitions, value_bytes, codec]
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.write_memory", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    idle, peak, staged = map(int, run.stdout.split())
    assert staged > 100_000_000 or value_bytes == 1
    assert peak - idle < ALLOWED_BYTES

"""Kafka's Java ``FileRecords`` loop as a warm process that is asked for one pass at a time."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

from tests.support.kafka_jars import KafkaJars

_SOURCE = Path(__file__).parent / "java" / "FileRecordsLoop.java"
_WARM_UP_PASSES = 4


class FileRecordsLoop:
    """The Java process; a context manager."""

    def __init__(self, jars: KafkaJars) -> None:
        self._process = subprocess.Popen(
            ["java", "-cp", jars.class_path, str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def warm_up(self, path: Path) -> None:
        for _ in range(_WARM_UP_PASSES):
            self.visit(path)

    def visit(self, path: Path) -> tuple[float, int]:
        """Check and visit every record of a file; return seconds and records."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if len(answer) != 3:
            raise RuntimeError(f"java FileRecords loop ended on {path}")
        return int(answer[0]) / 1e9, int(answer[1])

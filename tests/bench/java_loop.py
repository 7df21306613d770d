"""Kafka's Java ``FileRecords`` loop as a warm process that is asked for one pass at a time."""

from __future__ import annotations

from pathlib import Path

from tests.support.java_process import JavaProcess
from tests.support.kafka_jars import KafkaJars

_SOURCE = Path(__file__).parent / "java" / "FileRecordsLoop.java"
_WARM_UP_PASSES = 4


class FileRecordsLoop(JavaProcess):
    """The Java process; a context manager."""

    def __init__(self, jars: KafkaJars) -> None:
        super().__init__(jars, _SOURCE)

    def warm_up(self, path: Path) -> int:
        """Visit a file until the code is compiled; return its records."""
        return [self.visit(path)[1] for _ in range(_WARM_UP_PASSES)][-1]

    def visit(self, path: Path) -> tuple[float, int]:
        """Check and visit every record of a file; return seconds and records."""
        self.send(str(path))
        answer = self.receive().split()
        if len(answer) != 3:
            raise RuntimeError(f"java FileRecords loop ended on {path}")
        return int(answer[0]) / 1e9, int(answer[1])

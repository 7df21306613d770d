"""Kafka's own log, cleaner, retention and lookups in one Java process, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from tests.support.java_process import JavaProcess
from tests.support.kafka_jars import KafkaJars

_SOURCE = Path(__file__).parent / "java" / "KafkaLog.java"
# Cases are many and small: what compiles fast is faster than what runs fast.
_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_END_OF_ANSWER = "."


class KafkaLog(JavaProcess):
    """The Java process; a context manager.

    Parameters
    ----------
    jars : KafkaJars
    log : file
        Takes what Kafka logs.
    """

    def __init__(self, jars: KafkaJars, log: IO[bytes]) -> None:
        super().__init__(jars, _SOURCE, _OPTIONS, log)

    def request(self, operation: str, directory: Path, **settings: object) -> None:
        """Let Kafka begin with one operation; it does one request after the other.

        Parameters
        ----------
        operation : str
            One of those that ``java/KafkaLog.java`` names.
        directory : Path
            Of a partition.
        **settings : object
            ``_`` stands for a dot in a name.
        """
        fields = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        self.send("\t".join([operation, str(directory), *fields]))

    def answer(self) -> list[str]:
        """Wait for the lines of the next answer."""
        lines: list[str] = []
        while line := self.receive():
            if line.rstrip("\n") == _END_OF_ANSWER:
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("Kafka's process ended before it answered")

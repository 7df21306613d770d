"""Kafka's own log, cleaner, retention and lookups in one Java process, without a broker."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO, Self

from tests.support.kafka_jars import KafkaJars

_SOURCE = Path(__file__).parent / "java" / "KafkaLog.java"
_END_OF_ANSWER = "."


class KafkaLog:
    """The Java process; a context manager.

    Parameters
    ----------
    jars : KafkaJars
    log : file
        Takes what Kafka logs.
    """

    def __init__(self, jars: KafkaJars, log: IO[bytes]) -> None:
        # Cases are many and small: what compiles fast is faster than what runs fast.
        command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        self._process = subprocess.Popen(
            [*command, "-cp", jars.class_path, str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
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

    def ask(self, operation: str, directory: Path, **settings: object) -> list[str]:
        """Let Kafka do one operation; gives the lines of its answer.

        Parameters
        ----------
        operation : str
            One of those that ``java/KafkaLog.java`` names.
        directory : Path
            Of a partition.
        **settings : object
            ``_`` stands for a dot in a name.
        """
        self.request(operation, directory, **settings)
        return self.answer()

    def request(self, operation: str, directory: Path, **settings: object) -> None:
        """Let Kafka begin with what `ask` asks; it does one request after the other."""
        assert self._process.stdin is not None
        fields = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        self._process.stdin.write("\t".join([operation, str(directory), *fields]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[str]:
        """Wait for the lines of the next answer."""
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            if line.rstrip("\n") == _END_OF_ANSWER:
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("Kafka's process ended before it answered")

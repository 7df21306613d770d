"""One Java source as a process that answers lines with lines, until it is closed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

from tests.support.kafka_jars import KafkaJars


class JavaProcess:
    """A context manager that runs a source file with Kafka's jars, and waits for its end.

    Parameters
    ----------
    jars : KafkaJars
    source : Path
        Compiled as it starts.
    options : sequence of str
        Of the virtual machine.
    log : file or int
        Takes what it says on stderr.
    """

    def __init__(
        self,
        jars: KafkaJars,
        source: Path,
        options: Sequence[str] = (),
        log: IO[bytes] | int = subprocess.DEVNULL,
    ) -> None:
        self._process = subprocess.Popen(
            ["java", *options, "-cp", jars.class_path, str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._process.wait(30)
        self._answers.close()

    def send(self, line: str) -> None:
        """Give one line; answers come in the order of the lines."""
        self._requests.write(f"{line}\n")
        self._requests.flush()

    def receive(self) -> str:
        """Wait for a line of an answer; nothing once the process has ended."""
        return self._answers.readline()

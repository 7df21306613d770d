"""The logs under tests/data: unpacked once a session, with what the brokers' consumers saw."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.project import DATA

PRODUCERS = ("kafka-4.3.1", "kafka-4.3.1-java-transactions", "kafka-2.8.2")
STATES = ("clean", "crashed")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """Log directories of one broker in one state, and what its consumers saw."""

    producer: str
    log_directories: tuple[str, ...]

    def truth(self, isolation_level: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
        """Records by topic and partition, in order of offset, values as bytes."""
        by_partition = defaultdict(list)
        path = DATA / self.producer / f"truth-{isolation_level}.jsonl.gz"
        with gzip.open(path, "rt") as lines:
            for line in lines:
                record = _with_bytes(json.loads(line))
                by_partition[record["topic"], record["partition"]].append(record)
        for records in by_partition.values():
            records.sort(key=lambda record: record["offset"])
        return dict(by_partition)

    def watermarks(self, isolation_level: str) -> dict[tuple[str, int], tuple[int, int]]:
        """[log start offset, high watermark or last stable offset) by topic and partition."""
        text = (DATA / self.producer / f"watermarks-{isolation_level}.json").read_text()
        return {
            (name.rpartition("-")[0], int(name.rpartition("-")[2])): (low, high)
            for name, (low, high) in json.loads(text).items()
        }

    def dump(self) -> str:
        """Output of ``kafka-dump-log --deep-iteration`` over the clean logs."""
        with gzip.open(DATA / self.producer / "dump.txt.gz", "rt") as file:
            return file.read()


def unpack(producer: str, state: str, target: Path) -> BrokerLog:
    """Unpack one log below `target`, its sparse files kept sparse."""
    target.mkdir(parents=True, exist_ok=True)
    archive = DATA / producer / f"{state}.tar.gz"
    subprocess.run(["tar", "-xzSf", str(archive), "-C", str(target)], check=True)
    directories = sorted(str(path) for path in (target / state).iterdir() if path.is_dir())
    return BrokerLog(producer, tuple(directories))


def _with_bytes(record: dict[str, Any]) -> dict[str, Any]:
    headers = record["headers"]
    return {
        **record,
        "key": _bytes(record["key"]),
        "value": _bytes(record["value"]),
        "headers": headers and [{"key": key, "value": _bytes(value)} for key, value in headers],
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)

"""The tiered logs under tests/data: a broker's log directory, its store, and what consumers saw."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_segmentlog import read_arrow
from spark_segmentlog.log.tier.remote_segment import KeyFiles
from tests.support.project import DATA

STORES = ("local", "aiven-plain", "aiven-zstd", "aiven-zstd-aes")
CHUNKED = STORES[1:]
LAYOUTS = {name: "local" if name == "local" else "aiven" for name in STORES}
TIERED_TOPICS = "t[.].*"
_PREFIXES = {"aiven-zstd": "tier/given/"}

Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Store:
    """One variant, unpacked: `log_directory` after a clean stop, and the store beside it."""

    name: str
    folder: Path

    @property
    def log_directory(self) -> str:
        return str(self.folder / "d0")

    @property
    def remote(self) -> str:
        return str(self.folder / "remote" / _PREFIXES.get(self.name, ""))

    @property
    def keys(self) -> dict[str, str]:
        """Private keys by the ids of their pairs."""
        pairs = self.folder / "TEST-KEYS"
        return {
            path.name.removesuffix(".private.pem"): str(path)
            for path in pairs.glob("*.private.pem")
        }

    @property
    def key_files(self) -> KeyFiles:
        return tuple(self.keys.items())

    @property
    def options(self) -> dict[str, Any]:
        """What a read of the store needs besides its place."""
        return {"remote_storage_keys": self.keys} if self.keys else {}

    def offsets(self) -> dict[str, dict[str, Any]]:
        """What ListOffsets told, by topic and partition."""
        found: dict[str, dict[str, Any]] = json.loads(_data(self.name, "offsets.json").read_text())
        return found

    def truth(self, isolation_level: str) -> dict[Key, tuple[Any, ...]]:
        """Records of the tiered topics, by topic, partition and offset."""
        with gzip.open(_data(self.name, f"truth-{isolation_level}.jsonl.gz"), "rt") as lines:
            return {_key(row): _fields(row) for row in map(json.loads, lines)}

    def metadata_text(self) -> list[str]:
        """What Kafka's own serde prints of the metadata records, a line each."""
        with gzip.open(_data(self.name, "remote-log-metadata.txt.gz"), "rt") as lines:
            return lines.read().splitlines()


def unpack(name: str, target: Path) -> Store:
    """Unpack a variant below a folder."""
    target.mkdir(parents=True, exist_ok=True)
    for archive in sorted(_data(name, "").glob("*.tar.gz")):
        subprocess.run(["tar", "-xzSf", str(archive), "-C", str(target)], check=True)
    return Store(name, target)


def read_rows(paths: str | Sequence[str], **options: Any) -> dict[Key, tuple[Any, ...]]:
    """Read rows as `Store.truth` gives them; each offset must come once."""
    rows: dict[Key, tuple[Any, ...]] = {}
    for batch in read_arrow(paths, include_headers=True, **options):
        for row in as_rows(batch):
            assert _key(row) not in rows, _key(row)
            rows[_key(row)] = _values(row)
    return rows


def as_rows(batch: pa.RecordBatch) -> Iterable[dict[str, Any]]:
    """Give the rows of an Arrow batch, timestamps in ms."""
    place = batch.schema.get_field_index("timestamp")
    millis = batch.column(place).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    columns = [*batch.columns[:place], millis, *batch.columns[place + 1 :]]
    return list(pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist())


def _data(name: str, file: str) -> Path:
    return DATA / "tiered-4.3.1" / name / file


def _key(row: dict[str, Any]) -> Key:
    return row["topic"], row["partition"], row["offset"]


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = row["headers"]
    return (
        row["timestamp"],
        row["timestampType"],
        row["key"],
        row["value"],
        headers and [(header["key"], header["value"]) for header in headers],
    )


def _fields(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = row["headers"]
    return (
        row["timestamp"],
        row["timestampType"],
        _bytes(row["key"]),
        _bytes(row["value"]),
        headers and [(key, _bytes(value)) for key, value in headers],
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def options_of(store: Store, **options: Any) -> dict[str, Any]:
    given = {"remote_storage": store.remote, "subscribe_pattern": TIERED_TOPICS, **store.options}
    given |= options
    if "subscribe" in given or "assign" in given:
        del given["subscribe_pattern"]
    return given


def truth(store: Store, isolation_level: str = "read_uncommitted") -> dict[Key, Any]:
    return {key: values[:4] for key, values in store.truth(isolation_level).items()}

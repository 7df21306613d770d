"""Records of a broker's metadata log, and a log of them."""

from __future__ import annotations

import uuid
from pathlib import Path

from spark_segmentlog.log.directory.cluster_metadata import read_cluster_metadata
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    v2_batch,
)
from spark_segmentlog.testing.builder import v2_batch as batch_of

BEGIN, END, ABORT = (bytes((1, kind, 0, 0)) for kind in (23, 24, 25))


def identifier(number: int) -> bytes:
    return uuid.UUID(int=number).bytes


def int32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def brokers(*ids: int) -> bytes:
    return bytes((len(ids) + 1,)) + b"".join(map(int32, ids))


def topic(name: str, number: int) -> bytes:
    return bytes((1, 2, 0, len(name) + 1)) + name.encode() + identifier(number) + b"\0"


def partition(number: int, topic_number: int, *replicas: int) -> bytes:
    rest = brokers(1) + b"\x01\x01" + int32(1) + int32(0) + int32(0) + b"\x01" + b"\0"
    return b"\x01\x03\x02" + int32(number) + identifier(topic_number) + brokers(*replicas) + rest


def change(number: int, topic_number: int, *replicas: int) -> bytes:
    field = brokers(*replicas)
    tagged = bytes((2, 1, 4)) + int32(1) + bytes((2, len(field))) + field
    return b"\x01\x05\x02" + int32(number) + identifier(topic_number) + tagged


def remove(topic_number: int) -> bytes:
    return b"\x01\x09\x00" + identifier(topic_number) + b"\0"


def setting(kind: int, resource: str, name: str, value: str | None) -> bytes:
    texts = b"".join(bytes((len(text) + 1,)) + text.encode() for text in (resource, name))
    last = b"\0" if value is None else bytes((len(value) + 1,)) + value.encode()
    return bytes((1, 4, 0, kind)) + texts + last + b"\0"


def metadata_log(directory: Path, *values: bytes) -> str:
    log = LogBuilder(directory)
    data = v2_batch([RecordSpec(value=value) for value in values])
    log.partition("__cluster_metadata", 0, [[data]])
    log.meta_properties()
    return str(directory)


def replicas(path: str) -> dict[str, dict[int, tuple[int, ...]]]:
    return {name: known.replicas for name, known in read_cluster_metadata(path).topics.items()}


def log_of(path: Path, name: str, *records: RecordSpec, number: int = 0) -> Path:
    LogBuilder(path).partition(name, number, [[batch_of(list(records))]])
    return path

"""The fields of commit files as JSON: every value is checked before it is used."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.commit_steps import (
    AdoptStep,
    CopyStep,
    PartitionPlan,
    SegmentPlan,
)
from spark_segmentlog.log.formats.checkpoints import MAX_LEADER_EPOCH, LeaderEpoch
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import MAX_OFFSET, STAGED_NAME, TopicPartition, find_topic_partition
from spark_segmentlog.log.segment.growth import MAX_SEGMENT_BYTES, SegmentEnd


def partition_to_fields(plan: PartitionPlan, path_numbers: Mapping[str, int]) -> dict[str, Any]:
    """Give the fields of a partition's plan; staged files are named by their numbers."""
    return {
        "topic": plan.topic_partition.topic,
        "partition": plan.topic_partition.partition,
        "linked_inode": plan.linked_inode,
        "before": None if plan.visible_range is None else list(plan.visible_range),
        "after": [plan.start_after, plan.end_after],
        "leader_epoch": plan.leader_epoch,
        "leader_epochs": _epochs_to_fields(plan.leader_epochs),
        "partition_metadata": encode(plan.partition_metadata),
        "segments": [_segment_to_fields(segment) for segment in plan.segments],
        "steps": [_step_to_fields(step, path_numbers[step.staged_path]) for step in plan.steps],
    }


def partition_from_fields(
    found: dict[str, Any], log_directory: str, staged_paths: tuple[str, ...]
) -> PartitionPlan:
    """Read a partition's plan; raises what `parsing` turns into one error."""
    before = (None, None) if found["before"] is None else _pair(found["before"])
    after = _pair(found["after"])
    linked_inode = found.get("linked_inode")
    return PartitionPlan(
        topic_partition=_topic_partition(found["topic"], found["partition"]),
        log_directory=log_directory,
        start_before=before[0],
        end_before=before[1],
        start_after=after[0],
        end_after=after[1],
        leader_epoch=checked_integer(found["leader_epoch"], most=MAX_LEADER_EPOCH),
        leader_epochs=_epochs_from_fields(found),
        partition_metadata=decode(found["partition_metadata"]),
        segments=tuple(_segment_from_fields(segment) for segment in found["segments"]),
        steps=tuple(
            _step_from_fields(step, staged_paths, log_directory) for step in found["steps"]
        ),
        linked_inode=None if linked_inode is None else checked_integer(linked_inode),
    )


def _epochs_to_fields(epochs: Sequence[LeaderEpoch] | None) -> list[list[int]] | None:
    return None if epochs is None else [[entry.epoch, entry.start_offset] for entry in epochs]


def _epochs_from_fields(found: dict[str, Any]) -> tuple[LeaderEpoch, ...] | None:
    """Read leader epochs; earlier releases wrote where the only one starts."""
    if "epoch_start_offset" in found:
        start = found["epoch_start_offset"]
        pairs = None if start is None else [(found["leader_epoch"], start)]
    else:
        pairs = found["leader_epochs"]
    if pairs is None:
        return None
    return tuple(
        LeaderEpoch(checked_integer(epoch, most=MAX_LEADER_EPOCH), checked_integer(start))
        for epoch, start in pairs
    )


def _segment_to_fields(plan: SegmentPlan) -> dict[str, Any]:
    values = {name: getattr(plan, name) for name in SegmentPlan.__slots__}
    return {**values, "indexed": asdict(plan.indexed)}


def _segment_from_fields(found: dict[str, Any]) -> SegmentPlan:
    indexed = found["indexed"]
    return SegmentPlan(
        base_offset=checked_integer(found["base_offset"]),
        file_bytes_before=checked_integer(
            found["file_bytes_before"], least=-1, most=2 * MAX_SEGMENT_BYTES
        ),
        valid_bytes_before=checked_integer(found["valid_bytes_before"], most=MAX_SEGMENT_BYTES),
        bytes_after=checked_integer(found["bytes_after"], most=2 * MAX_SEGMENT_BYTES),
        indexed=SegmentEnd(
            **{
                field.name: checked_integer(indexed[field.name], least=-(2**63))
                for field in fields(SegmentEnd)
            }
        ),
    )


def _step_to_fields(step: AdoptStep | CopyStep, path_number: int) -> list[Any]:
    if isinstance(step, CopyStep):
        return [
            "copy",
            path_number,
            step.staged_position,
            step.length_bytes,
            step.base_offset,
            step.position,
        ]
    return [
        "adopt",
        path_number,
        step.base_offset,
        step.size_bytes,
        step.inode,
        encode(step.first_header),
        step.header_checksum,
    ]


def _step_from_fields(
    found: list[Any], staged_paths: tuple[str, ...], log_directory: str
) -> AdoptStep | CopyStep:
    path = staged_paths[checked_integer(found[1])]
    if found[0] == "copy":
        return CopyStep(
            staged_path=path,
            staged_position=checked_integer(found[2], most=MAX_SEGMENT_BYTES),
            length_bytes=checked_integer(found[3], most=MAX_SEGMENT_BYTES),
            base_offset=checked_integer(found[4]),
            position=checked_integer(found[5], most=MAX_SEGMENT_BYTES),
        )
    if found[0] != "adopt":
        raise ValueError(f"step {found[0]!r}, known are adopt and copy")
    if os.path.dirname(path) != log_directory:
        raise ValueError(f"staged file {path!r} of another directory cannot become a segment")
    return AdoptStep(
        staged_path=path,
        base_offset=checked_integer(found[2]),
        size_bytes=checked_integer(found[3], most=MAX_SEGMENT_BYTES),
        inode=checked_integer(found[4], most=2**64),
        first_header=decode(found[5]) or b"",
        header_checksum=checked_integer(found[6]),
    )


def _topic_partition(topic: Any, partition: Any) -> TopicPartition:
    """Check that a partition's name is one: what is made of it is a path."""
    found = TopicPartition(checked_text(topic), checked_integer(partition))
    if find_topic_partition(str(found)) != found:
        raise ValueError(f"{str(found)!r} is no name of a partition")
    return found


def checked_staged_name(value: Any) -> str:
    """Check that a text is a staged file's name, and no path."""
    if STAGED_NAME.fullmatch(checked_text(value)) is None:
        raise ValueError(f"{value!r} is no name of a staged file")
    return checked_text(value)


def checked_path(value: Any) -> str:
    """Check that a text is an absolute path."""
    path = checked_text(value)
    if not os.path.isabs(path):
        raise ValueError(f"{path!r:.100} is no absolute path")
    return os.path.normpath(path)


def _pair(value: Any) -> tuple[int, int]:
    first, second = value
    return checked_integer(first), checked_integer(second)


def checked_integer(value: Any, *, least: int = 0, most: int = MAX_OFFSET) -> int:
    """Check that a value is a number within bounds, both inclusive."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r:.100} is no number from {least} to {most}")
    return value


def checked_text(value: Any) -> str:
    """Check that a value is a text that may stand in a path."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no text")
    # Surrogates and zero bytes have no place in a path; encoding refuses the former.
    if b"\0" in value.encode():
        raise ValueError(f"{value!r:.100} has a zero byte")
    return value


def checked_optional_text(value: Any) -> str | None:
    """Check a text that may be missing."""
    return None if value is None else checked_text(value)


def encode(data: bytes | None) -> str | None:
    """Give bytes as a text."""
    return None if data is None else base64.b64encode(data).decode("ascii")


def decode(text: Any) -> bytes | None:
    """Give the bytes of a text."""
    return None if text is None else base64.b64decode(checked_text(text), validate=True)


def object_to_bytes(found: dict[str, Any]) -> bytes:
    """Give the bytes of a JSON object."""
    return json.dumps(found, separators=(",", ":")).encode("ascii")


def object_from_bytes(data: bytes, known_format: int) -> dict[str, Any]:
    """Parse a JSON object of a format that is known."""
    found = json.loads(data)
    if not isinstance(found, dict) or "format" not in found:
        raise ValueError("no format version in it")
    if found["format"] != known_format:
        raise ValueError(f"format {found['format']!r:.100}, this release knows {known_format}")
    return found


@contextmanager
def parsing(source: str) -> Iterator[None]:
    """Turn what a parser finds wrong with a file into one error that names the file."""
    try:
        yield
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        binascii.Error,
    ) as error:
        if isinstance(error, RecoveryError):
            raise
        raise RecoveryError(
            f"not a commit file of this library: {type(error).__name__}: {error} (file {source})"
        ) from error


def read_commit_file(path: str) -> bytes | None:
    """Read a file; None where it is not there."""
    try:
        return files.read_plain_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None

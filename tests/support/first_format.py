"""Journals as the first format of the commit journal had them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_segmentlog.log.directory.commit_steps import CopyStep
from spark_segmentlog.log.directory.journal import Journal, journal_path


def to_first_format(directories: Sequence[str], *, visible: bool = False) -> None:
    """Put journals as the first format had them in the place of those that are there."""
    journals = [
        Journal.from_bytes(Path(journal_path(directory)).read_bytes(), directory, source=directory)
        for directory in directories
    ]
    staged = sorted({path for journal in journals for path in journal.staged_paths})
    deciding = journals[0]
    fields: dict[str, Any] = {
        "format": 1,
        "write_id": deciding.write_id,
        "visible": visible,
        "application": deciding.application,
        "version": deciding.version,
        "index_interval_bytes": deciding.index_interval_bytes,
        "clean_shutdown_marks": {
            journal.log_directory: journal.clean_shutdown_mark
            and base64.b64encode(journal.clean_shutdown_mark).decode()
            for journal in journals
        },
        "staged_paths": staged,
        "partitions": [
            {**plan_fields(journal, number), "log_directory": journal.log_directory}
            for journal in journals
            for number in range(len(journal.partitions))
        ],
    }
    for partition, plan in zip(
        fields["partitions"],
        [plan for journal in journals for plan in journal.partitions],
        strict=True,
    ):
        for step, planned in zip(partition["steps"], plan.steps, strict=True):
            step[1] = staged.index(planned.staged_path)
            assert (step[0] == "copy") == isinstance(planned, CopyStep)
    Path(journal_path(directories[0])).write_text(json.dumps(fields))
    pointer = {
        "format": 1,
        "write_id": deciding.write_id,
        "deciding_directory": deciding.log_directory,
    }
    for directory in directories[1:]:
        Path(journal_path(directory)).write_text(json.dumps(pointer))


def plan_fields(journal: Journal, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(journal.to_bytes().partition(b"\n")[2])["partitions"][number]
    del found["linked_inode"]
    return found

"""Findings as lines and as objects."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from spark_segmentlog.cli.output import OutputFormat, print_json, print_line, printable
from spark_segmentlog.log import formats, segment
from spark_segmentlog.log.findings import Finding

_READERS: Final = (segment.__name__, formats.__name__)


@contextmanager
def told_once() -> Iterator[None]:
    """Leave what readers warn of, as often as they meet it, to the lines that a verb prints."""
    loggers = [logging.getLogger(name) for name in _READERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def print_finding(finding: Finding, output_format: OutputFormat) -> None:
    """Print one finding on a line."""
    if output_format is OutputFormat.TEXT:
        print_line(printable(f"{finding}{' (harmless)' if finding.is_harmless else ''}"))
        return
    topic_partition = finding.topic_partition
    print_json(
        {
            "type": "finding",
            "code": finding.code,
            "level": str(finding.level),
            "kind": str(finding.kind),
            "topic": None if topic_partition is None else topic_partition.topic,
            "partition": None if topic_partition is None else topic_partition.partition,
            "path": finding.path,
            "position": finding.position if finding.position >= 0 else None,
            "startOffset": finding.start_offset,
            "endOffset": finding.end_offset,
            "detail": finding.detail,
            "severity": str(finding.severity),
            "broker": finding.broker or None,
            "mend": finding.kind.mend,
            "refusesWrites": finding.refuses_writes,
            "isHarmless": finding.is_harmless,
        }
    )

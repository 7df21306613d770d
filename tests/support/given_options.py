"""Options of a read as they are given, parsed."""

from __future__ import annotations

from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.read_options import ReadOptions


def batch(**options: str) -> ReadOptions:
    return parse_read_options({"path": "/logs", **options})


def stream(**options: str) -> ReadOptions:
    return parse_read_options({"path": "/logs", **options}, streaming=True)

"""Small logs to read, and what reads of them give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_segmentlog import read_arrow
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.planning import RowBounds
from spark_segmentlog.query.read_plan import plan_splits
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest, Split, read_split
from spark_segmentlog.testing.builder import RecordSpec, v2_batch


def batch(base_offset: int, *timestamps_ms: int, **fields: Any) -> bytes:
    records = [
        RecordSpec(key=b"k", value=b"%04d" % (base_offset + place), timestamp_ms=timestamp)
        for place, timestamp in enumerate(timestamps_ms)
    ]
    return v2_batch(records, base_offset=base_offset, **fields)


def offsets(path: Path | list[Path], **options: Any) -> list[int]:
    table = read_arrow(path, columns=["offset"], **options).read_all()
    return list(table["offset"].to_pylist())


def places(path: Path | list[Path], **options: Any) -> list[tuple[str, int, int]]:
    table = read_arrow(path, columns=["topic", "partition", "offset"], **options).read_all()
    return [(row["topic"], row["partition"], row["offset"]) for row in table.to_pylist()]


def splits_of(path: Path, bounds: RowBounds | None = None, **options: str) -> list[Split]:
    parsed = parse_read_options({"path": str(path), **options})
    return plan_splits(parsed, bounds or RowBounds())


def spans(splits: list[Split]) -> list[list[tuple[int, int]]]:
    return [[(piece.start_offset, piece.end_offset) for piece in split] for split in splits]


def rows_of(path: Path, splits: list[Split], **options: str) -> list[int]:
    parsed = parse_read_options({"path": str(path), **options})
    request = ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
    return [
        offset
        for split in splits
        for rows in read_split(split, request)
        for offset in rows["offset"].to_pylist()
    ]

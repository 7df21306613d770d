"""A log without Spark: its rows as Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_segmentlog.query.options import keywords_to_options, parse_read_options, warn_ignored
from spark_segmentlog.query.read_options import View
from spark_segmentlog.query.read_plan import plan_whole_ranges
from spark_segmentlog.query.schema import default_schema, schema_of_columns, shape_rows
from spark_segmentlog.query.split_reader import (
    ReadRequest,
    Split,
    read_in_threads,
    read_split,
)
from spark_segmentlog.query.views import read_view

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read_arrow(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    use_threads: bool = True,
    filesystem: Any = None,
    **options: Any,
) -> pa.RecordBatchReader:
    """Read the same rows as ``spark.read.format("segmentlog")``, without Spark.

    Parameters
    ----------
    paths : path or iterable of paths
        Log directories, partition directories, `.log` files, globs of these.
    columns : sequence of str, optional
        Columns to decode, in any order; by default those of the row schema.
    use_threads : bool
        Whether gzip and zstd segments of more than a few hundred KiB are read by one thread and
        decoded by as many as `pyarrow.cpu_count()` says; not with a `mode` that steps over bad
        bytes, nor for a `view`. Memory grows with the threads: there are two pieces more than
        threads at once, each of some MiB of the file, and of 64 MiB of rows at most. Drop a reader
        that is not used up, which ends its threads. Without, and for all else, only the reading of
        the next piece has a thread.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        What opens the paths, which are then its own; by default the local disk, or what their
        scheme says.
    **options
        The options of a batch read in snake case (``starting_offsets``, ``kafka_isolation_level``),
        as text or as Python values: numbers, booleans, lists, dicts for JSON.

    Returns
    -------
    pyarrow.RecordBatchReader
        Partitions one after the other, each in the order of its offsets. Where each ends is fixed
        when this is called; files are read as the reader is.

    Raises
    ------
    SegmentLogError
        One of its subclasses, for options, paths and schema; while reading, for bad bytes and loss.
    """
    parsed = parse_read_options(keywords_to_options(path_texts(paths), options))
    parsed = replace(parsed, filesystem=filesystem)
    warn_ignored(parsed)
    schema = default_schema(parsed) if columns is None else schema_of_columns(columns, parsed)
    request = ReadRequest(options=parsed, shape=shape_rows(schema, parsed), read_ahead=True)
    splits = plan_whole_ranges(parsed)
    threads_count = pa.cpu_count() if use_threads else 1
    return pa.RecordBatchReader.from_batches(schema, _batches(splits, request, threads_count))


def _batches(
    splits: Iterable[Split], request: ReadRequest, threads_count: int
) -> Iterator[pa.RecordBatch]:
    options = request.options
    if options.view is not View.RECORDS:
        return (batch for split in splits for batch in read_view(split, request))
    if threads_count > 1 and not options.skips_corrupt:
        return read_in_threads(splits, request, threads_count)
    return (batch for split in splits for batch in read_split(split, request))


def path_texts(paths: Paths) -> list[str]:
    """Give paths as options have them."""
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    return [os.fspath(path) for path in listed]

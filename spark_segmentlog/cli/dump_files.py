"""Single files beside a log, by their own paths: indexes, producer snapshots, KRaft's snapshots."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from spark_segmentlog.cli.dump_entries import BatchGroup, segment_parts
from spark_segmentlog.cli.dump_indexes import INDEX_READERS, producer_entries
from spark_segmentlog.cli.dump_options import DumpOptions, Entry, place_of
from spark_segmentlog.errors import LogPathNotFoundError, NotALogDirectoryError
from spark_segmentlog.log.directory.cluster_metadata import metadata_snapshot
from spark_segmentlog.log.io.reading import LOCAL, local_path
from spark_segmentlog.log.names import (
    CHECKPOINT_FILE_SUFFIX,
    SNAPSHOT_SUFFIX,
    find_base_offset,
    parse_partition_directory_name,
)
from spark_segmentlog.log.segment.segment import Segment

_SIDE_SUFFIXES: Final = (*INDEX_READERS, SNAPSHOT_SUFFIX)


def is_single_file(path: str) -> bool:
    """Tell whether a path is dumped as one file, apart from its log."""
    return path.endswith((*_SIDE_SUFFIXES, CHECKPOINT_FILE_SUFFIX))


def file_parts(path: str, options: DumpOptions) -> Iterator[Entry | BatchGroup]:
    """Read one file.

    Raises
    ------
    LogPathNotFoundError
        It is not there.
    NotALogDirectoryError
        Its name, or that of its folder, is none of Kafka's.
    """
    local = os.path.abspath(local_path(path))
    if not os.path.exists(local):
        raise LogPathNotFoundError(f"{path} does not exist")
    if path.endswith(CHECKPOINT_FILE_SUFFIX):
        yield from segment_parts(metadata_snapshot(local), options)
    else:
        yield from _side_entries(local)


def _side_entries(path: str) -> Iterator[Entry]:
    directory, name = os.path.split(path)
    suffix = next(suffix for suffix in _SIDE_SUFFIXES if name.endswith(suffix))
    offset = find_base_offset(name, suffix)
    if offset is None:
        raise NotALogDirectoryError(
            f"{path} is no file of a log: its name must be an offset in 20 digits and {suffix}"
        )
    topic_partition = parse_partition_directory_name(os.path.basename(directory))
    if suffix == SNAPSHOT_SUFFIX:
        data = LOCAL.read_file(path) or b""
        yield from producer_entries(place_of(topic_partition, path), offset, data)
        return
    segment = Segment(
        topic_partition=topic_partition,
        directory=directory,
        base_offset=offset,
    )
    yield from INDEX_READERS[suffix](segment)

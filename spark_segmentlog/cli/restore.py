"""``segmentlog restore``: a local log directory made of what remote stores keep."""

from __future__ import annotations

from typing import Final

import click

from spark_segmentlog.cli.arguments import (
    format_option,
    paths_argument,
    remote_options,
    topics_option,
)
from spark_segmentlog.cli.output import Column, OutputFormat, print_rows
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.upkeep.restore import restore

_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("segments", "segments", "number"),
    Column("sizeBytes", "bytes", "number"),
    Column("logStartOffset", "start", "number"),
    Column("logEndOffset", "end", "number"),
    Column("directory", "directory"),
)
COLUMNS: Final = {"restore": _COLUMNS}


@click.command(name="restore")
@paths_argument
@topics_option
@click.option(
    "--to",
    "target",
    metavar="LOG_DIRECTORY",
    required=True,
    help="The log directory to make; it must not hold anything yet.",
)
@click.option(
    "--topic-ids-of",
    metavar="LOG_DIRECTORY",
    help="Give the topics the ids that they have there, in the cluster they are meant for.",
)
@remote_options
@format_option
def restore_verb(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    target: str,
    topic_ids_of: str | None,
    remote: RemoteOptions,
    output_format: OutputFormat,
) -> None:
    """Make a log directory of logs that lie in remote stores, or there and on a broker's disk.

    PATH is a log directory, with --remote-storage, or a store by itself. Offsets, leader epochs,
    transactions and bytes stay as they are; checksums are compared, indexes made anew.
    """
    restored = restore(paths, target, remote=remote, topics=topics, topic_ids_of=topic_ids_of)
    rows = (
        {
            "topic": it.topic_partition.topic,
            "partition": it.topic_partition.partition,
            "segments": it.segments,
            "sizeBytes": it.size_bytes,
            "logStartOffset": it.log_start_offset,
            "logEndOffset": it.log_end_offset,
            "directory": it.directory,
        }
        for it in restored
    )
    print_rows(_COLUMNS, rows, output_format)

"""``segmentlog create``: the partition directories of a new topic."""

from __future__ import annotations

from typing import Final

import click

from spark_segmentlog.cli.arguments import (
    format_option,
    lock_timeout_option,
    log_directories_argument,
)
from spark_segmentlog.cli.output import Column, OutputFormat, print_rows
from spark_segmentlog.log.names import MAX_PARTITION
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.write.local_log import open_log

_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("directory", "directory"),
)
COLUMNS: Final = {"create": _COLUMNS}


@click.command(name="create")
@click.argument("topic")
@log_directories_argument
@click.option(
    "--partitions",
    "partition_count",
    type=click.IntRange(1, MAX_PARTITION),
    default=1,
    show_default=True,
    help="How many partitions.",
)
@lock_timeout_option
@format_option
def create_verb(
    topic: str,
    paths: tuple[str, ...],
    partition_count: int,
    lock_timeout_ms: int,
    output_format: OutputFormat,
) -> None:
    """Make the partitions of TOPIC that are not there yet.

    Each goes to the log directory that holds fewest; directories that are not there are made.
    Refused for a directory that belongs to a cluster and does not know the topic.
    """
    with open_log(paths, lock_timeout_ms=lock_timeout_ms) as log:
        log.create_topic(topic, partition_count)
    manager = LogManager.open(list(paths))
    rows = (
        {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "directory": manager.topic_partitions[topic_partition].directory,
        }
        for topic_partition in manager.partitions_of(topic)
    )
    print_rows(_COLUMNS, rows, output_format)

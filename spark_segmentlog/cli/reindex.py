"""``segmentlog reindex``: makes all indexes again."""

from __future__ import annotations

import click

from spark_segmentlog.cli.actions import index_interval_option, print_actions
from spark_segmentlog.cli.arguments import (
    check_log_directories,
    find_topic_partitions,
    format_option,
    lock_timeout_option,
    log_directories_argument,
    topics_option,
)
from spark_segmentlog.cli.output import OutputFormat
from spark_segmentlog.log.upkeep.recovery import reindex


@click.command(name="reindex")
@log_directories_argument
@topics_option
@index_interval_option
@lock_timeout_option
@format_option
def reindex_verb(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    index_interval_bytes: int,
    lock_timeout_ms: int,
    output_format: OutputFormat,
) -> None:
    """Make the offset, time and transaction indexes of all segments again, from their batches."""
    directories = check_log_directories(paths, beside=True)
    actions = reindex(
        directories,
        topic_partitions=find_topic_partitions(directories, topics),
        index_interval_bytes=index_interval_bytes,
        lock_timeout_ms=lock_timeout_ms,
    )
    print_actions(actions, output_format)

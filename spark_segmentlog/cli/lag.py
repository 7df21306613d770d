"""``segmentlog lag``: how far consumer groups are behind, from offsets on disk."""

from __future__ import annotations

from typing import Final

import click

from spark_segmentlog.cli.arguments import (
    format_option,
    paths_argument,
    storage_options,
    topics_option,
)
from spark_segmentlog.cli.output import Column, OutputFormat, print_rows
from spark_segmentlog.log.io.storage_options import StorageOptions
from spark_segmentlog.query.group_lag import group_lag

_COLUMNS: Final = (
    Column("group", "group"),
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("committedOffset", "committed", "number"),
    Column("logEndOffset", "log end", "number"),
    Column("lag", "lag", "number"),
)
COLUMNS: Final = {"lag": _COLUMNS}


@click.command(name="lag")
@paths_argument
@topics_option
@click.option(
    "--group", "groups", metavar="GROUP", multiple=True, help="This group alone; may be repeated."
)
@storage_options
@format_option
def lag_verb(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    storage: StorageOptions,
    output_format: OutputFormat,
) -> None:
    """Show the committed offset of each consumer group, and how far it is behind the log's end.

    PATH... are the log directories of a broker, all of them: the offsets of a group lie in one
    partition of __consumer_offsets. What a partition ends with is not known where it lies in none
    of them.
    """
    rows = group_lag(
        paths,
        mode="DROPMALFORMED",
        fail_on_data_loss=False,
        storage_endpoint=storage.endpoint,
        storage_region=storage.region,
        storage_anonymous=storage.is_anonymous,
    ).to_pylist()
    chosen = (
        row
        for row in rows
        if (not groups or row["group"] in groups) and (not topics or row["topic"] in topics)
    )
    print_rows(_COLUMNS, chosen, output_format)

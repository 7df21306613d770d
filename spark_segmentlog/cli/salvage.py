"""``segmentlog salvage``: a clean log directory of all that is good elsewhere."""

from __future__ import annotations

from typing import Any, Final

import click

from spark_segmentlog.cli.arguments import format_option, remote_options, topics_option
from spark_segmentlog.cli.findings import told_once
from spark_segmentlog.cli.output import Column, OutputFormat, print_line, print_rows, printable
from spark_segmentlog.errors import describe_offsets
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.upkeep.salvage import SalvagedPartition, salvage

_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("segments", "segments", "number"),
    Column("sizeBytes", "bytes", "number"),
    Column("logStartOffset", "start", "number"),
    Column("lastStableOffset", "stable", "number"),
    Column("logEndOffset", "end", "number"),
    Column("lost"),
    Column("sources"),
    Column("directory", "directory"),
)
COLUMNS: Final = {"salvage": _COLUMNS}


@click.command(name="salvage")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.argument("target", metavar="TARGET")
@topics_option
@click.option(
    "--topic-ids-of",
    metavar="LOG_DIRECTORY",
    help="Give the topics the ids that they have there, in the cluster they are meant for.",
)
@remote_options
@format_option
@click.pass_context
@told_once()
def salvage_verb(
    ctx: click.Context,
    sources: tuple[str, ...],
    target: str,
    topics: tuple[str, ...],
    topic_ids_of: str | None,
    remote: RemoteOptions,
    output_format: OutputFormat,
) -> None:
    """Make a new log directory of all good batches of others, and tell which offsets are gone.

    SOURCE is a log directory, a partition directory, or a store of tiered storage; no source is
    written. A partition that lies in several is one log: leader epochs decide where its replicas
    differ, and one fills what another has lost. TARGET must not hold anything yet. Offsets, leader
    epochs, transactions and bytes stay as they are, indexes are made again. The exit code is 1 when
    offsets are gone.
    """
    salvaged = salvage(sources, target, remote=remote, topics=topics, topic_ids_of=topic_ids_of)
    print_rows(_COLUMNS, map(_row, salvaged), output_format)
    if output_format is OutputFormat.TEXT:
        for partition in salvaged:
            for lost in partition.lost:
                offsets = describe_offsets(lost.start_offset, lost.end_offset)
                print_line(printable(f"{partition.topic_partition}: {offsets}: {lost.detail}"))
    if any(partition.lost for partition in salvaged):
        ctx.exit(1)


def _row(partition: SalvagedPartition) -> dict[str, Any]:
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "segments": partition.segments,
        "sizeBytes": partition.size_bytes,
        "logStartOffset": partition.log_start_offset,
        "lastStableOffset": partition.last_stable_offset,
        "logEndOffset": partition.log_end_offset,
        "lost": [
            {"startOffset": lost.start_offset, "endOffset": lost.end_offset, "detail": lost.detail}
            for lost in partition.lost
        ],
        "sources": list(partition.sources),
        "directory": partition.directory,
    }

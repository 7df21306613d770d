"""``segmentlog dump``: what is in the files of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import click

from spark_segmentlog.cli.arguments import (
    deleted_option,
    format_option,
    open_logs,
    paths_argument,
    remote_options,
    topics_option,
)
from spark_segmentlog.cli.dump_entries import (
    BytesAs,
    DumpOptions,
    Entry,
    index_entries,
    segment_entries,
    snapshot_entries,
    transaction_entries,
)
from spark_segmentlog.cli.dump_text import text_line
from spark_segmentlog.cli.output import OutputFormat, print_json, print_line
from spark_segmentlog.log.directory.cluster_metadata import metadata_snapshot
from spark_segmentlog.log.names import CHECKPOINT_FILE_SUFFIX, MAX_OFFSET
from spark_segmentlog.log.partition.partition_log import PartitionLog, while_it_is_there
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.tier.stores import RemoteOptions


def _parse_offsets(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    """Parse ``START:END``, or one offset; the end is exclusive."""
    start, colon, end = value.partition(":")
    bounds = (start or "0", end or str(MAX_OFFSET)) if colon else (start, start)
    if not all(bound.isascii() and bound.isdigit() for bound in bounds):
        raise click.BadParameter(f"{value!r} is not START:END, START:, :END or one offset")
    first, last = (int(bound) for bound in bounds)
    return first, last if colon else last + 1


@click.command(name="dump", short_help="Print what the files of partitions hold.")
@paths_argument
@topics_option
@click.option("--batches", is_flag=True, help="Batch headers; what is dumped by default.")
@click.option("--records", is_flag=True, help="Batch headers and the records in them.")
@click.option(
    "--decode",
    is_flag=True,
    help="With --records, which it stands for: what those of Kafka's own topics say.",
)
@click.option("--indexes", is_flag=True, help="Offset, time and transaction indexes.")
@click.option("--snapshots", is_flag=True, help="Producer snapshots.")
@click.option("--transactions", is_flag=True, help="Transactions, open ones last.")
@click.option("--include-control", is_flag=True, help="With --records: control records too.")
@click.option(
    "--offsets",
    callback=_parse_offsets,
    default=":",
    metavar="START:END",
    help="Batches and records of these offsets alone; the end is exclusive.",
)
@click.option(
    "--bytes",
    "bytes_as",
    type=click.Choice(BytesAs, case_sensitive=False),
    default=BytesAs.TEXT.value,
    show_default=True,
    help="How keys and values are written; text that is not UTF-8 becomes base64.",
)
@deleted_option
@remote_options
@format_option
@click.pass_context
def dump_verb(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    output_format: OutputFormat,
    include_deleted: bool,
    remote: RemoteOptions,
    offsets: tuple[int, int],
    records: bool,
    decode: bool,
    include_control: bool,
    bytes_as: BytesAs,
    **parts: bool,
) -> None:
    """Print what the files of partitions hold, in the lines of kafka-dump-log.

    Bad bytes are named and stepped over; the exit code is then 1. A torn or zero-filled end of a
    log is its normal end.
    """
    options = DumpOptions(
        start_offset=offsets[0],
        end_offset=offsets[1],
        records=records or decode,
        decode=decode,
        include_control=include_control,
        bytes_as=bytes_as,
    )
    parts["batches"] |= options.records or not any(parts.values())
    is_damaged = False
    snapshots = [path for path in paths if path.endswith(CHECKPOINT_FILE_SUFFIX)]
    others = [path for path in paths if path not in snapshots]
    logs = []
    if others:
        logs = open_logs(others, topics, include_deleted=include_deleted, remote=remote)
    for entries in chain(
        (segment_entries(metadata_snapshot(path), options) for path in snapshots),
        (while_it_is_there(log, _entries(log, options, **parts)) for log in logs),
    ):
        for entry in entries:
            is_damaged |= entry["type"] == "corruptBytes" or not entry.get("isValid", True)
            if output_format is OutputFormat.JSON:
                print_json(entry)
            else:
                print_line(text_line(entry))
    if is_damaged:
        ctx.exit(1)


def _entries(
    log: PartitionLog,
    options: DumpOptions,
    *,
    batches: bool,
    indexes: bool,
    snapshots: bool,
    transactions: bool,
) -> Iterator[Entry]:
    def visit(segment: Segment, start_offset: int) -> Iterator[tuple[Entry, int]]:
        # Raises before anything is given, should the segment be gone.
        segment.size_bytes()
        is_begun = start_offset > max(segment.base_offset, options.start_offset)
        left = replace(options, start_offset=start_offset) if is_begun else options
        for entry in chain(
            segment_entries(segment, left) if batches else (),
            index_entries(segment) if indexes else (),
        ):
            yield entry, entry["lastOffset"] + 1 if entry["type"] == "batch" else 0

    yield from log.visit_segments(visit, options.start_offset, options.end_offset)
    yield from chain(
        snapshot_entries(log) if snapshots else (),
        log.resolved(lambda: list(transaction_entries(log))) if transactions else (),
    )

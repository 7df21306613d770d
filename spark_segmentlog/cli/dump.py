"""``segmentlog dump``: what is in the files of a partition."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import click

from spark_segmentlog.cli.arguments import (
    deleted_option,
    format_option,
    open_logs,
    paths_argument,
    remote_options,
    topics_option,
)
from spark_segmentlog.cli.dump_columns import GroupLines, group_lines
from spark_segmentlog.cli.dump_entries import BatchGroup, segment_parts
from spark_segmentlog.cli.dump_files import file_parts, is_single_file
from spark_segmentlog.cli.dump_indexes import index_entries, snapshot_entries, transaction_entries
from spark_segmentlog.cli.dump_options import BytesAs, DumpOptions, Entry
from spark_segmentlog.cli.dump_text import text_line
from spark_segmentlog.cli.dump_values import parse_key, parse_offsets, parse_timestamps
from spark_segmentlog.cli.output import OutputFormat, print_bytes, print_json, print_line
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.partition.log_watch import LogWatch
from spark_segmentlog.log.partition.partition_log import PartitionLog, while_it_is_there
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.tier.remote_options import RemoteOptions

FOLLOW_SECONDS: Final = 0.2
_Part = Entry | BatchGroup


@click.command(name="dump")
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
    callback=parse_offsets,
    default=":",
    metavar="START:END",
    help="Batches and records of these offsets alone; the end is exclusive.",
)
@click.option(
    "--timestamps",
    callback=parse_timestamps,
    metavar="FROM:TO",
    help="Records, or else batches by their headers, of this time alone, as ISO 8601 or in "
    "milliseconds; the end is exclusive.",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Records of this key alone, written as --bytes says; stands for --records too.",
)
@click.option(
    "--producer",
    "producer_ids",
    type=int,
    multiple=True,
    metavar="ID",
    help="Batches of this producer id alone; may be repeated.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after this many records, or batches where no records are asked for.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with what is appended, until interrupted."
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
    limit: int | None,
    follow: bool,
    batches: bool,
    indexes: bool,
    snapshots: bool,
    transactions: bool,
    **choice: Any,
) -> None:
    """Print what the files of partitions hold, in the lines of kafka-dump-log.

    A path may also be one .log, .index, .timeindex, .txnindex, .snapshot or .checkpoint file.
    Bad bytes are named and stepped over; the exit code is then 1. A torn or zero-filled end of a
    log is its normal end.

    \b
    segmentlog dump --records --offsets 100:120 /var/lib/kafka/data/orders-0
    segmentlog dump --topic orders --key 4711 --format json /var/lib/kafka/data
    segmentlog dump --records --timestamps 2025-02-11T08:00:2025-02-11T09:00 DIRECTORY
    segmentlog dump -f --records /var/lib/kafka/data/orders-0
    """
    options = _dump_options(**choice)
    others = _Others(indexes=indexes, snapshots=snapshots, transactions=transactions)
    with_batches = batches or options.records or others == _Others()
    files = [path for path in paths if is_single_file(path)]
    log_paths = [path for path in paths if path not in files]
    if follow and (others != _Others() or files):
        raise click.UsageError("--follow is for batches and records of logs")
    printer = _Printer(output_format, options.records, limit)
    if follow:
        _follow(log_paths, topics, options, printer)
        return
    logs = []
    if log_paths:
        logs = open_logs(log_paths, topics, include_deleted=include_deleted, remote=remote)
    printer.print_all(
        chain(
            chain.from_iterable(file_parts(path, options) for path in files),
            chain.from_iterable(
                while_it_is_there(log, _parts(log, options if with_batches else None, others))
                for log in logs
            ),
        )
    )
    if printer.is_damaged:
        ctx.exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Others:
    """What of a partition is dumped beside its batches."""

    indexes: bool = False
    snapshots: bool = False
    transactions: bool = False


def _dump_options(
    *,
    offsets: tuple[int, int],
    timestamps: tuple[int | None, int | None],
    key: str | None,
    producer_ids: tuple[int, ...],
    records: bool,
    decode: bool,
    include_control: bool,
    bytes_as: BytesAs,
) -> DumpOptions:
    return DumpOptions(
        start_offset=offsets[0],
        end_offset=offsets[1],
        min_timestamp_ms=timestamps[0],
        max_timestamp_ms=timestamps[1],
        key=None if key is None else parse_key(key, bytes_as),
        producer_ids=producer_ids,
        records=records or decode or key is not None,
        decode=decode,
        include_control=include_control,
        bytes_as=bytes_as,
    )


@dataclass(slots=True)
class _Printer:
    """Prints parts of a dump, up to a number of records or batches.

    Attributes
    ----------
    left : int or None
        How many may still be printed; None for all.
    is_damaged : bool
        Whether bad bytes, or an index that contradicts the log, were among them.
    """

    output_format: OutputFormat
    counts_records: bool
    left: int | None
    is_damaged: bool = False

    @property
    def is_done(self) -> bool:
        """Whether nothing more may be printed."""
        return self.left == 0

    def print_all(self, parts: Iterable[_Part]) -> None:
        """Print parts until the limit is reached."""
        for part in parts:
            if isinstance(part, BatchGroup):
                self._print_group(part)
            else:
                self._print_entry(part)
            if self.is_done:
                return

    def _print_group(self, group: BatchGroup) -> None:
        parts = group.parts()
        if self.left is None:
            for part, lines in zip(parts, in_parallel(self._lines, parts), strict=True):
                self._print_lines(part, lines)
            return
        for part in parts:
            is_whole = self._most_of(part) <= self.left
            self._print_lines(part, self._lines(part) if is_whole else None)
            if self.is_done:
                return

    def _lines(self, group: BatchGroup) -> GroupLines | None:
        return group_lines(group, as_json=self.output_format is OutputFormat.JSON)

    def _print_lines(self, group: BatchGroup, lines: GroupLines | None) -> None:
        """Print the lines of a group; entry by entry where they were not made at once."""
        if lines is None:
            self.print_all(group.entries())
            return
        self.is_damaged |= not group.is_valid.all()
        for text in lines.texts:
            print_bytes(text)
        if self.left is not None:
            self.left -= lines.records if self.counts_records else lines.batches

    def _most_of(self, group: BatchGroup) -> int:
        """How many records or batches a group has at most; formats that do not tell have more."""
        counts = group.table.records_count
        if not self.counts_records:
            return len(counts)
        return sys.maxsize if (counts < 0).any() else int(counts.sum())

    def _print_entry(self, entry: Entry) -> None:
        self.is_damaged |= entry["type"] == "corruptBytes" or not entry.get("isValid", True)
        if self.output_format is OutputFormat.JSON:
            print_json(entry)
        else:
            print_line(text_line(entry))
        if self.left is not None:
            self.left -= entry["type"] == ("record" if self.counts_records else "batch")


def _parts(
    log: PartitionLog, options: DumpOptions | None, others: _Others = _Others()
) -> Iterator[_Part]:
    """Dump a partition, batches of it where there are options for them."""
    chosen = options or DumpOptions()

    def visit(segment: Segment, start_offset: int) -> Iterator[tuple[_Part, int]]:
        # Raises before anything is given, should the segment be gone.
        segment.size_bytes()
        is_begun = start_offset > max(segment.base_offset, chosen.start_offset)
        left = replace(chosen, start_offset=start_offset) if is_begun else chosen
        for part in chain(
            segment_parts(segment, left) if options else (),
            index_entries(segment) if others.indexes else (),
        ):
            yield part, part.next_offset if isinstance(part, BatchGroup) else 0

    yield from log.visit_segments(visit, chosen.start_offset, chosen.end_offset)
    yield from chain(
        snapshot_entries(log) if others.snapshots else (),
        log.resolved(lambda: list(transaction_entries(log))) if others.transactions else (),
    )


def _follow(
    paths: Sequence[str], topics: Sequence[str], options: DumpOptions, printer: _Printer
) -> None:
    """Print what is there, and what is appended, until the limit, the end, or an interrupt."""
    follower = _Follower(options)
    watch = LogWatch(paths, skip_corrupt=True)
    try:
        while not printer.is_done:
            for topic_partition, log in watch.refresh().items():
                if not topics or topic_partition.topic in topics:
                    printer.print_all(while_it_is_there(log, follower.news(log)))
                if printer.is_done:
                    return
            sys.stdout.flush()
            time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        return


@dataclass(slots=True)
class _Follower:
    """Knows how far each partition was printed, and in which file."""

    options: DumpOptions
    reached: dict[str, int] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def news(self, log: PartitionLog) -> Iterator[_Part]:
        """Give what a partition has beyond what was given; a log that was cut is taken up there."""
        options, end_offset = self.options, log.log_end_offset
        start_offset = min(self.reached.get(log.directory, 0), end_offset)
        self.reached[log.directory] = end_offset
        left = replace(
            options,
            start_offset=max(start_offset, options.start_offset),
            end_offset=min(end_offset, options.end_offset),
        )
        if left.start_offset < left.end_offset:
            yield from filter(self._is_news, _parts(log, left))

    def _is_news(self, part: _Part) -> bool:
        """Leave out what is said of a file's end, and its name where that was given."""
        if isinstance(part, BatchGroup) or part["type"] == "corruptBytes":
            return True
        directory, _, _ = str(part["path"]).rpartition("/")
        is_new = part["type"] == "segment" and self.paths.get(directory) != str(part["path"])
        if is_new:
            self.paths[directory] = part["path"]
        return is_new

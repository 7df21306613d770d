"""``segmentlog retain`` and ``compact``: what a broker's cleaners do, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click

from spark_segmentlog.cli.arguments import (
    check_log_directories,
    format_option,
    lock_timeout_option,
    log_directories_argument,
    topics_or_all,
    topics_or_all_options,
)
from spark_segmentlog.cli.output import Column, OutputFormat, print_rows
from spark_segmentlog.clock import now_ms
from spark_segmentlog.log.segment.growth import MAX_SEGMENT_BYTES, SegmentConfig
from spark_segmentlog.log.upkeep.compaction import (
    CompactionReport,
    TopicCompaction,
    compact,
    plan_compaction,
)
from spark_segmentlog.log.upkeep.partitions import DEFAULT_FILE_DELETE_DELAY_MS
from spark_segmentlog.log.upkeep.retention import (
    NO_LIMIT,
    RetentionReport,
    TopicRetention,
    apply_retention,
    plan_retention,
)

_F = TypeVar("_F", bound=Callable[..., Any])

RETENTION_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("logStartOffsetBefore", "start before", "number"),
    Column("logStartOffset", "start", "number"),
    Column("deletedSegments", "segments deleted", "number"),
    Column("deletedRecords", "records deleted", "number"),
    Column("deletedBytes", "bytes deleted", "number"),
    Column("reasons", "because of"),
    Column("cleanupPolicy", "policy"),
    Column("waitingFiles", "files waiting", "number"),
    Column("removedFiles", "files removed", "number"),
    Column("directory", "directory"),
)
COMPACTION_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("cleanedUpTo", "clean up to", "number"),
    Column("segmentsBefore", "segments before", "number"),
    Column("segmentsAfter", "after", "number"),
    Column("recordsRead", "records read", "number"),
    Column("recordsKept", "kept", "number"),
    Column("recordsWithoutKey", "without key", "number"),
    Column("bytesBefore", "bytes before", "number"),
    Column("bytesAfter", "after", "number"),
    Column("waitingFiles", "files waiting", "number"),
    Column("removedFiles", "files removed", "number"),
    Column("directory", "directory"),
)
AS_SET: Final = "as the cluster says"

dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Only tell; takes no lock and writes nothing."
)


def _deletion_options(verb: _F) -> _F:
    """Add what both verbs take on deleted files and on whose topics they touch."""
    options = (
        click.option(
            "--file-delete-delay-ms",
            type=click.IntRange(min=0),
            default=DEFAULT_FILE_DELETE_DELAY_MS,
            show_default=True,
            help="How long .deleted files stay for readers that have them open.",
        ),
        click.option(
            "--wait",
            "wait_for_deletion",
            is_flag=True,
            help="Wait until .deleted files may go; without this a later run takes them.",
        ),
        click.option(
            "--allow-replicated",
            is_flag=True,
            help="Touch topics that have several replicas, below their high watermarks.",
        ),
    )
    for option in reversed(options):
        verb = option(verb)
    return verb


@click.command(name="retain", short_help="Delete segments by age, size or log start.")
@log_directories_argument
@topics_or_all_options
@click.option(
    "--retention-ms",
    type=click.IntRange(min=NO_LIMIT),
    show_default=AS_SET,
    help="Segments whose youngest record is older go; -1 for no limit.",
)
@click.option(
    "--retention-bytes",
    type=click.IntRange(min=NO_LIMIT),
    show_default=AS_SET,
    help="Segments go while a partition keeps this many bytes; -1 for no limit.",
)
@click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Also of topics whose cleanup.policy is compact alone.",
)
@_deletion_options
@lock_timeout_option
@dry_run_option
@format_option
def retain_verb(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    output_format: OutputFormat,
    **settings: Any,
) -> None:
    """Delete whole segments at the front of logs: by age, by size, below the log start offset.

    What is not given is what the cluster's metadata says of the topic. Where that says nothing,
    at least one of --retention-ms and --retention-bytes must be given; the other is no limit then.
    """
    chosen = topics_or_all(topics, all_topics=all_topics)
    run = plan_retention if dry_run else apply_retention
    report = run(check_log_directories(paths), chosen, TopicRetention(**settings), now_ms())
    print_rows(RETENTION_COLUMNS, _retention_rows(report), output_format)


@click.command(name="compact", short_help="Keep the latest record of each key.")
@log_directories_argument
@topics_or_all_options
@click.option(
    "--delete-retention-ms",
    type=click.IntRange(min=0),
    show_default=AS_SET,
    help="How long tombstones and markers stay after the first run that met them.",
)
@click.option(
    "--min-compaction-lag-ms",
    type=click.IntRange(min=0),
    show_default=AS_SET,
    help="Records younger than this stay as they are.",
)
@click.option(
    "--min-cleanable-dirty-ratio",
    "min_cleanable_ratio",
    type=click.FloatRange(0, 1),
    default=TopicCompaction().min_cleanable_ratio,
    show_default=True,
    help="Leave logs alone of which a smaller part is new.",
)
@click.option(
    "--segment-bytes",
    type=click.IntRange(1, MAX_SEGMENT_BYTES),
    default=SegmentConfig().segment_bytes,
    show_default=True,
    help="Segments are merged up to this size.",
)
@click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Also of topics whose cleanup.policy is not to compact.",
)
@_deletion_options
@lock_timeout_option
@dry_run_option
@format_option
def compact_verb(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    all_topics: bool,
    segment_bytes: int,
    dry_run: bool,
    output_format: OutputFormat,
    **settings: Any,
) -> None:
    """Keep of each key its latest record, in the closed segments of logs.

    Records without a key go, so this is for topics that are meant to be compacted: one of which the
    cluster's metadata says otherwise is refused, and left out by --all-topics. What is not given is
    what the metadata says of the topic, or Kafka's default. Without metadata both
    --delete-retention-ms and --min-compaction-lag-ms must be given.
    """
    chosen = topics_or_all(topics, all_topics=all_topics)
    segment = SegmentConfig(segment_bytes=segment_bytes)
    config = TopicCompaction(segment=segment, leaves_out=all_topics, **settings)
    run = plan_compaction if dry_run else compact
    report = run(check_log_directories(paths), chosen, config, now_ms())
    print_rows(COMPACTION_COLUMNS, _compaction_rows(report), output_format)


def _retention_rows(report: RetentionReport) -> Iterator[dict[str, Any]]:
    for it in report.partitions:
        yield {
            "topic": it.topic_partition.topic,
            "partition": it.topic_partition.partition,
            "directory": it.directory,
            "logStartOffsetBefore": it.log_start_offset_before,
            "logStartOffset": it.log_start_offset,
            "deletedSegments": len(it.deleted_segments),
            "deletedRecords": it.deleted_records,
            "deletedBytes": it.deleted_bytes,
            "reasons": list(dict.fromkeys(str(gone.reason) for gone in it.deleted_segments)),
            "cleanupPolicy": sorted(it.config.cleanup_policy),
            "retentionMs": it.config.retention_ms,
            "retentionBytes": it.config.retention_bytes,
            "removedFiles": it.removed_files,
            "waitingFiles": it.waiting_files,
        }


def _compaction_rows(report: CompactionReport) -> Iterator[dict[str, Any]]:
    for it in report.partitions:
        yield {
            "topic": it.topic_partition.topic,
            "partition": it.topic_partition.partition,
            "directory": it.directory,
            "firstDirtyOffset": it.first_dirty_offset,
            "cleanedUpTo": it.cleaned_up_to,
            "passes": it.passes,
            "deleteRetentionMs": it.config.delete_retention_ms,
            "minCompactionLagMs": it.config.min_compaction_lag_ms,
            "segmentsBefore": it.segments_before,
            "segmentsAfter": it.segments_after,
            "recordsRead": it.records_read,
            "recordsKept": it.records_kept,
            "recordsWithoutKey": it.records_without_key,
            "bytesBefore": it.bytes_before,
            "bytesAfter": it.bytes_after,
            "removedFiles": it.removed_files,
            "waitingFiles": it.waiting_files,
        }

"""``segmentlog compact``: what a broker's cleaner does, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from spark_segmentlog.cli.arguments import (
    check_log_directories,
    format_option,
    lock_timeout_option,
    log_directories_argument,
    topics_or_all,
    topics_or_all_options,
)
from spark_segmentlog.cli.cleaning_options import AS_SET, deletion_options, dry_run_option
from spark_segmentlog.cli.output import Column, OutputFormat, print_rows
from spark_segmentlog.clock import now_ms
from spark_segmentlog.log.segment.growth import MAX_SEGMENT_BYTES, SegmentConfig
from spark_segmentlog.log.upkeep.compaction import PartitionCompaction, compact, plan_compaction
from spark_segmentlog.log.upkeep.compaction_config import TopicCompaction

_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("firstDirtyOffset"),
    Column("cleanedUpTo", "clean up to", "number"),
    Column("passes"),
    Column("deleteRetentionMs"),
    Column("minCompactionLagMs"),
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
COLUMNS: Final = {"compact": _COLUMNS}


@click.command(name="compact")
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
@deletion_options
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
    print_rows(_COLUMNS, _rows(report), output_format)


def _rows(report: Iterable[PartitionCompaction]) -> Iterator[dict[str, Any]]:
    for cleaned in report:
        yield {
            "topic": cleaned.topic_partition.topic,
            "partition": cleaned.topic_partition.partition,
            "directory": cleaned.directory,
            "firstDirtyOffset": cleaned.first_dirty_offset,
            "cleanedUpTo": cleaned.cleaned_up_to,
            "passes": cleaned.passes,
            "deleteRetentionMs": cleaned.config.delete_retention_ms,
            "minCompactionLagMs": cleaned.config.min_compaction_lag_ms,
            "segmentsBefore": cleaned.segments_before,
            "segmentsAfter": cleaned.segments_after,
            "recordsRead": cleaned.records_read,
            "recordsKept": cleaned.records_kept,
            "recordsWithoutKey": cleaned.records_without_key,
            "bytesBefore": cleaned.bytes_before,
            "bytesAfter": cleaned.bytes_after,
            "removedFiles": cleaned.removed_files,
            "waitingFiles": cleaned.waiting_files,
        }

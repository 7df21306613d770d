"""``segmentlog retain``: deletes whole segments, as a broker does, once."""

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
from spark_segmentlog.log.upkeep.retention import (
    PartitionRetention,
    apply_retention,
    plan_retention,
)
from spark_segmentlog.log.upkeep.retention_config import NO_LIMIT, TopicRetention

_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "partition", "number"),
    Column("logStartOffsetBefore", "start before", "number"),
    Column("logStartOffset", "start", "number"),
    Column("deletedSegments", "segments deleted", "number"),
    Column("deletedRecords", "records deleted", "number"),
    Column("deletedBytes", "bytes deleted", "number"),
    Column("reasons", "because of"),
    Column("cleanupPolicy", "policy"),
    Column("retentionMs"),
    Column("retentionBytes"),
    Column("waitingFiles", "files waiting", "number"),
    Column("removedFiles", "files removed", "number"),
    Column("directory", "directory"),
)
COLUMNS: Final = {"retain": _COLUMNS}


@click.command(name="retain")
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
@deletion_options
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
    print_rows(_COLUMNS, _rows(report), output_format)


def _rows(report: Iterable[PartitionRetention]) -> Iterator[dict[str, Any]]:
    for cleaned in report:
        yield {
            "topic": cleaned.topic_partition.topic,
            "partition": cleaned.topic_partition.partition,
            "directory": cleaned.directory,
            "logStartOffsetBefore": cleaned.log_start_offset_before,
            "logStartOffset": cleaned.log_start_offset,
            "deletedSegments": len(cleaned.deleted_segments),
            "deletedRecords": cleaned.deleted_records,
            "deletedBytes": cleaned.deleted_bytes,
            "reasons": list(dict.fromkeys(str(gone.reason) for gone in cleaned.deleted_segments)),
            "cleanupPolicy": sorted(cleaned.config.cleanup_policy),
            "retentionMs": cleaned.config.retention_ms,
            "retentionBytes": cleaned.config.retention_bytes,
            "removedFiles": cleaned.removed_files,
            "waitingFiles": cleaned.waiting_files,
        }

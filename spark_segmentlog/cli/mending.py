"""``segmentlog preflight``, ``recover`` and ``reindex``: what a broker meets, and mending it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from spark_segmentlog.cli.arguments import (
    check_log_directories,
    find_topic_partitions,
    format_option,
    lock_timeout_option,
    log_directories_argument,
    paths_argument,
    topics_option,
)
from spark_segmentlog.cli.findings import print_finding
from spark_segmentlog.cli.output import OutputFormat, print_json, print_line, printable
from spark_segmentlog.log.findings import Severity
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep import recovery
from spark_segmentlog.log.upkeep.recovery import RecoveryAction
from spark_segmentlog.log.write import preflight

_index_interval_option: Final = click.option(
    "--index-interval-bytes",
    type=click.IntRange(min=0),
    default=SegmentConfig().index_interval_bytes,
    show_default=True,
    help="How far apart the entries of new indexes are.",
)


@click.command(name="preflight", short_help="Tell what a broker would stop at, drop or cut.")
@paths_argument
@format_option
@click.pass_context
def preflight_verb(ctx: click.Context, paths: tuple[str, ...], output_format: OutputFormat) -> None:
    """Tell what a broker that is started on log directories would stop at, drop, rename or cut.

    Name all the log directories of one broker. Topic ids, foreign folders and files, partitions
    that stand twice, files that it cannot read or may not write, segments that its recovery would
    cut. Writes nothing. The exit code is 1 when it would lose records, or not start.
    """
    stops = losses = others = 0
    for finding in preflight.preflight(paths):
        losses += finding.severity is Severity.LOSS
        stops += finding.severity is Severity.STOP
        others += finding.severity not in (Severity.LOSS, Severity.STOP)
        print_finding(finding, output_format)
    if output_format is OutputFormat.TEXT:
        print_line(f"{losses} would lose records, {stops} would stop a broker, {others} harmless")
    if losses or stops:
        ctx.exit(1)


@click.command(name="recover", short_help="End commits, cut torn ends, mend indexes.")
@log_directories_argument
@topics_option
@click.option("--apply", "is_applied", is_flag=True, help="Do it; without this, only tell.")
@click.option(
    "--delete-later-segments",
    "delete_later",
    is_flag=True,
    help="Cut at bad bytes even if good batches or whole segments lie behind them, "
    "and take those away too, as a broker would.",
)
@_index_interval_option
@lock_timeout_option
@format_option
@click.pass_context
def recover_verb(
    ctx: click.Context,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    is_applied: bool,
    delete_later: bool,
    index_interval_bytes: int,
    lock_timeout_ms: int,
    output_format: OutputFormat,
) -> None:
    """End open commits, cut off torn ends, make indexes anew that are missing or wrong.

    Tells what --apply would do, in the same lines, and does it with --apply. Good batches behind
    bad bytes stay unless --delete-later-segments says otherwise. The exit code is 1 while
    something is left to do.
    """
    directories = check_log_directories(paths, beside=True)
    actions = recovery.recover(
        directories,
        topic_partitions=find_topic_partitions(directories, topics),
        truncate=True,
        delete_later=delete_later,
        dry_run=not is_applied,
        index_interval_bytes=index_interval_bytes,
        lock_timeout_ms=lock_timeout_ms,
    )
    _print_actions(actions, output_format)
    undone = sum(not action.is_done for action in actions)
    if output_format is OutputFormat.TEXT:
        print_line(_recovery_summary(actions))
    if undone:
        ctx.exit(1)


@click.command(name="reindex", short_help="Make all indexes anew.")
@log_directories_argument
@topics_option
@_index_interval_option
@lock_timeout_option
@format_option
def reindex_verb(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    index_interval_bytes: int,
    lock_timeout_ms: int,
    output_format: OutputFormat,
) -> None:
    """Make the offset, time and transaction indexes of all segments anew from their batches."""
    directories = check_log_directories(paths, beside=True)
    actions = recovery.reindex(
        directories,
        topic_partitions=find_topic_partitions(directories, topics),
        index_interval_bytes=index_interval_bytes,
        lock_timeout_ms=lock_timeout_ms,
    )
    _print_actions(actions, output_format)


def _recovery_summary(actions: Sequence[RecoveryAction]) -> str:
    left = sum(action.is_left for action in actions)
    done = sum(action.is_done for action in actions)
    counts = [f"{done} done", f"{left} left"]
    to_do = len(actions) - done - left
    if to_do:
        counts.insert(1, f"{to_do} to do: --apply does it")
    if left:
        counts[-1] += (
            ": good batches lie behind bad bytes, --delete-later-segments would take them along"
        )
    return ", ".join(counts)


def _print_actions(actions: Sequence[RecoveryAction], output_format: OutputFormat) -> None:
    for action in actions:
        if output_format is OutputFormat.TEXT:
            print_line(printable(str(action)))
            continue
        topic_partition = action.topic_partition
        print_json(
            {
                "kind": str(action.kind),
                "topic": None if topic_partition is None else topic_partition.topic,
                "partition": None if topic_partition is None else topic_partition.partition,
                "path": action.path,
                "detail": action.detail,
                "isDone": action.is_done,
                "isLeft": action.is_left,
            }
        )

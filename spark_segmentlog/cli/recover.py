"""``segmentlog recover``: ends commits, cuts torn ends, mends indexes."""

from __future__ import annotations

from collections.abc import Sequence

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
from spark_segmentlog.cli.findings import told_once
from spark_segmentlog.cli.output import OutputFormat, print_line
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction


@click.command(name="recover")
@log_directories_argument
@topics_option
@click.option("--apply", "is_applied", is_flag=True, help="Do it; without this, only tell.")
@click.option(
    "--delete-later-segments",
    "delete_later",
    is_flag=True,
    help="Cut at bad bytes even if good batches or whole segments lie after them, "
    "and take those away too, as a broker would.",
)
@click.option(
    "--cut-bad-batches",
    is_flag=True,
    help="Cut bad bytes out alone where good batches or whole segments lie after them: those "
    "stay, with their offsets, and a gap remains.",
)
@index_interval_option
@lock_timeout_option
@format_option
@click.pass_context
@told_once()
def recover_verb(
    ctx: click.Context,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    is_applied: bool,
    delete_later: bool,
    cut_bad_batches: bool,
    index_interval_bytes: int,
    lock_timeout_ms: int,
    output_format: OutputFormat,
) -> None:
    """End open commits, cut off torn ends, make again the indexes that are missing or wrong.

    Tells what --apply would do, in the same lines, and does it with --apply. Good batches after
    bad bytes stay with them unless --cut-bad-batches or --delete-later-segments says otherwise. The
    exit code is 1 while something is left to do.
    """
    if delete_later and cut_bad_batches:
        raise click.UsageError("--cut-bad-batches keeps what --delete-later-segments takes away")
    directories = check_log_directories(paths, beside=True)
    actions = recover(
        directories,
        topic_partitions=find_topic_partitions(directories, topics),
        truncate=True,
        delete_later=delete_later,
        cut_bad_batches=cut_bad_batches,
        dry_run=not is_applied,
        index_interval_bytes=index_interval_bytes,
        lock_timeout_ms=lock_timeout_ms,
    )
    print_actions(actions, output_format)
    undone = sum(not action.is_done for action in actions)
    if output_format is OutputFormat.TEXT:
        print_line(_summary(actions))
    if undone:
        ctx.exit(1)


def _summary(actions: Sequence[RecoveryAction]) -> str:
    left = sum(action.is_left for action in actions)
    done = sum(action.is_done for action in actions)
    counts = [f"{done} done", f"{left} left"]
    to_do = len(actions) - done - left
    if to_do:
        counts.insert(1, f"{to_do} to do: --apply does it")
    if left:
        counts[-1] += (
            ": good batches lie after bad bytes, --cut-bad-batches would keep them, "
            "--delete-later-segments would take them along"
        )
    return ", ".join(counts)

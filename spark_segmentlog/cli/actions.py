"""What verbs that mend share: how far apart index entries are, and what was done, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from spark_segmentlog.cli.output import OutputFormat, print_json, print_line, printable
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction

index_interval_option: Final = click.option(
    "--index-interval-bytes",
    type=click.IntRange(min=0),
    default=SegmentConfig().index_interval_bytes,
    show_default=True,
    help="How far apart the entries of new indexes are.",
)


def print_actions(actions: Sequence[RecoveryAction], output_format: OutputFormat) -> None:
    """Print each action on a line."""
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

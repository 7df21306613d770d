"""Options of the verbs that take records away: deleted files, whose topics, and only telling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from spark_segmentlog.log.upkeep.partitions import DEFAULT_FILE_DELETE_DELAY_MS

_F = TypeVar("_F", bound=Callable[..., Any])

AS_SET: Final = "as the cluster says"

dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Only tell; takes no lock and writes nothing."
)


def deletion_options(verb: _F) -> _F:
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

"""The `segmentlog` command: one verb a thing that can be done to a log, each a thin layer over it.

Exit codes: 0 when all is well, 1 when a verb that looks found something wrong or left something
undone, 2 when it could not do what was asked; then one line on the standard error says why. Who
stops reading, as ``head`` does, has seen enough: that is no failure of a verb that only shows.
"""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem

from spark_segmentlog.cli.output import escape_what_cannot_be_printed
from spark_segmentlog.cli.verbs import VERBS, Effect
from spark_segmentlog.errors import SegmentLogError


class _Failure(click.ClickException):
    """An error of ours, or of the disk, as one line."""

    exit_code: ClassVar[int] = 2


class _Verbs(click.Group):
    """Finds verbs in their table; turns errors that are no mistake of ours into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a verb."""
        return VERBS[cmd_name].command if cmd_name in VERBS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without loading one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name].meaning) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a verb without loading one, or an option of the command's own."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        verbs = [CompletionItem(name, help=VERBS[name].meaning) for name in names]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            only_shows = VERBS[str(ctx.invoked_subcommand)].effect is Effect.SHOWS
            ctx.exit(0 if only_shows else 1)
        except (SegmentLogError, OSError) as error:
            raise _Failure(" ".join(str(error).split())) from error


def _discard_output() -> None:
    """Let what is still to be written go nowhere, when nobody reads it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _help() -> str:
    *readers, last = (verb.name for verb in VERBS.values() if verb.effect is not Effect.WRITES)
    return (
        "Look at, mend and clean Kafka's own log directories, without a broker.\n\n"
        f"{', '.join(readers)} and {last} only read, beside a running broker too. The other verbs "
        "write, under the locks that a broker holds while it runs."
    )


@click.group(cls=_Verbs, help=_help(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spark-segmentlog", prog_name="segmentlog")
def main() -> None:
    """Run the command."""
    escape_what_cannot_be_printed()

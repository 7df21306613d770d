"""The `segmentlog` command: one verb a thing that can be done to a log, each a thin layer over it.

Exit codes: 0 when all is well, 1 when a verb that looks found something wrong or left something
undone, 2 when it could not do what was asked; then one line on the standard error says why. Who
stops reading, as ``head`` does, has seen enough: that is no failure of a verb that only shows.
"""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar, Final

import click

from spark_segmentlog.cli.cleaning import compact_verb, retain_verb
from spark_segmentlog.cli.create import create_verb
from spark_segmentlog.cli.dump import dump_verb
from spark_segmentlog.cli.lag import lag_verb
from spark_segmentlog.cli.ls import ls_verb
from spark_segmentlog.cli.mending import preflight_verb, recover_verb, reindex_verb
from spark_segmentlog.cli.output import escape_what_cannot_be_printed
from spark_segmentlog.cli.restore import restore_verb
from spark_segmentlog.cli.verify import verify_verb
from spark_segmentlog.errors import SegmentLogError

_SHOWING: Final = ("ls", "dump", "lag")


class _Failure(click.ClickException):
    """An error of ours, or of the disk, as one line."""

    exit_code: ClassVar[int] = 2


class _Verbs(click.Group):
    """Turns errors that are no mistake of ours into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            ctx.exit(0 if ctx.invoked_subcommand in _SHOWING else 1)
        except (SegmentLogError, OSError) as error:
            raise _Failure(" ".join(str(error).split())) from error


def _discard_output() -> None:
    """Let what is still to be written go nowhere, when nobody reads it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spark-segmentlog", prog_name="segmentlog")
def main() -> None:
    """Look at, mend and clean Kafka's own log directories, without a broker.

    ls, dump, lag, verify and preflight only read, beside a running broker too. The other verbs
    write, under the locks that a broker holds while it runs.
    """
    escape_what_cannot_be_printed()


for _verb in (
    ls_verb,
    dump_verb,
    lag_verb,
    verify_verb,
    preflight_verb,
    recover_verb,
    reindex_verb,
    retain_verb,
    compact_verb,
    create_verb,
    restore_verb,
):
    main.add_command(_verb)

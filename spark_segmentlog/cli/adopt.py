"""``segmentlog adopt``: whether a stopped broker would take over rows that are written for it."""

from __future__ import annotations

import click

from spark_segmentlog.cli.arguments import format_option
from spark_segmentlog.cli.output import OutputFormat, print_json, print_line, printable
from spark_segmentlog.log.write.adoption import PointState, check_adoption


@click.command(name="adopt")
@click.argument("topic")
@click.argument("paths", metavar="LOG_DIRECTORY...", nargs=-1, required=True)
@format_option
@click.pass_context
def adopt_verb(
    ctx: click.Context, topic: str, paths: tuple[str, ...], output_format: OutputFormat
) -> None:
    """Check, point by point, whether a broker will serve rows that are written to TOPIC for it.

    Name all the log directories of one stopped broker. Formatted, stopped, all named, the topic
    there with its id, one replica and its folders, nothing that a broker would drop. Writes
    nothing. The exit code is 1 when something is missing.
    """
    missing = 0
    for point in check_adoption(topic, paths):
        missing += point.state is PointState.MISSING
        if output_format is OutputFormat.TEXT:
            print_line(printable(str(point)))
        else:
            print_json({"point": point.name, "state": str(point.state), "detail": point.detail})
    if output_format is OutputFormat.TEXT:
        print_line(f"{missing} missing")
    if missing:
        ctx.exit(1)

"""``segmentlog preflight``: what a broker that is started on a log meets."""

from __future__ import annotations

import click

from spark_segmentlog.cli.arguments import format_option, paths_argument
from spark_segmentlog.cli.findings import print_finding
from spark_segmentlog.cli.output import OutputFormat, print_line
from spark_segmentlog.log.findings import Severity
from spark_segmentlog.log.write.preflight import preflight


@click.command(name="preflight")
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
    for finding in preflight(paths):
        losses += finding.severity is Severity.LOSS
        stops += finding.severity is Severity.STOP
        others += finding.severity not in (Severity.LOSS, Severity.STOP)
        print_finding(finding, output_format)
    if output_format is OutputFormat.TEXT:
        print_line(f"{losses} would lose records, {stops} would stop a broker, {others} harmless")
    if losses or stops:
        ctx.exit(1)

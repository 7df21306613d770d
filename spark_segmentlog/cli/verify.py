"""``segmentlog verify``: what is wrong with a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from spark_segmentlog.cli.arguments import (
    deleted_option,
    find_topic_partitions,
    format_option,
    open_logs,
    paths_argument,
    remote_options,
    topics_option,
)
from spark_segmentlog.cli.findings import print_finding, told_once
from spark_segmentlog.cli.output import OutputFormat, print_json, print_line
from spark_segmentlog.cli.verify_report import Checked, report_page
from spark_segmentlog.log.findings import Finding
from spark_segmentlog.log.names import LOG_SUFFIX
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey
from spark_segmentlog.log.upkeep.verification import OnSegment, verify


@click.command(name="verify")
@paths_argument
@topics_option
@click.option("--deep", is_flag=True, help="Decompress and decode every record too.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Also write a page of HTML: offsets over time with damage, bytes a day, findings.",
)
@deleted_option
@remote_options
@format_option
@click.pass_context
@told_once()
def verify_verb(
    ctx: click.Context,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    deep: bool,
    report: Path | None,
    include_deleted: bool,
    remote: RemoteOptions,
    output_format: OutputFormat,
) -> None:
    """Compare logs with themselves: framing, checksums, offsets, indexes, open commits.

    Writes nothing but the report. The exit code is 1 when something is wrong. What a running
    broker has in hand may show as torn.

    \b
    segmentlog verify --deep /var/lib/kafka/data
    segmentlog verify --topic orders --report orders.html /var/lib/kafka/data
    """
    checked = Checked(is_drawn=report is not None)
    findings: list[Finding] = []
    start = time.monotonic()
    chosen = find_topic_partitions(paths, topics, remote)
    with _progress(paths, topics, checked, remote=remote, include_deleted=include_deleted) as note:
        for finding in verify(
            paths,
            topic_partitions=chosen,
            deep=deep,
            remote=remote,
            include_deleted=include_deleted,
            on_segment=note,
        ):
            findings.append(finding)
            print_finding(finding, output_format)
    faults = sum(not finding.is_harmless for finding in findings)
    seconds = time.monotonic() - start
    _print_summary(checked, findings, faults, seconds, output_format)
    if report is not None:
        report.write_text(report_page(checked, findings, seconds), encoding="utf-8")
    if faults:
        ctx.exit(1)


def _print_summary(
    checked: Checked,
    findings: list[Finding],
    faults: int,
    seconds: float,
    output_format: OutputFormat,
) -> None:
    """Say what was looked at, and what came of it."""
    if output_format is OutputFormat.JSON:
        totals = checked.totals()
        levels = [str(finding.level) for finding in findings]
        counts = {f"{level}s": levels.count(level) for level in ("error", "warning", "note")}
        print_json({"type": "summary", **totals, "seconds": round(seconds, 3), **counts})
        return
    print_line(f"checked {checked.described()} in {seconds:.1f} s")
    print_line(f"{faults} wrong, {len(findings) - faults} harmless")


@contextmanager
def _progress(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    checked: Checked,
    *,
    remote: RemoteOptions,
    include_deleted: bool,
) -> Iterator[OnSegment]:
    """Give what notes each segment that is checked, and moves a bar on a terminal."""
    if not sys.stderr.isatty():
        yield checked.note
        return
    from spark_segmentlog.cli.terminal import progress_bar

    logs = open_logs(paths, topics, include_deleted=include_deleted, remote=remote)
    total = sum(sum(map(log.storage.size, log.segments.paths(LOG_SUFFIX))) for log in logs)
    with progress_bar("verify", total) as show:

        def note(survey: SegmentSurvey) -> None:
            checked.note(survey)
            show(checked.size_bytes)

        yield note

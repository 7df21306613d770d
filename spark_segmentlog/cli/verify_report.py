"""What ``segmentlog verify`` has checked, and its page: one HTML file that loads nothing.

Names of topics, paths and details come out of logs: all text is escaped. Drawings are SVG in the
page itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from html import escape
from typing import Any, Final, TypeAlias

import numpy as np

from spark_segmentlog.cli.output import EPOCH, format_size, format_time, printable
from spark_segmentlog.clock import DAY_MS
from spark_segmentlog.log.findings import Finding
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey

_MOST_POINTS: Final = 200
_MOST_DRAWN: Final = 2000
_WIDTH, _HEIGHT, _MARGIN = 720, 180, 8
_MOST_DAYS: Final = 3660
_ONE: Final = {"partitions": "partition", "segments": "segment", "batches": "batch"}
_LAST_DAY: Final = 2_932_896  # 9999-12-31
_STYLE: Final = """
body { font: 14px/1.5 sans-serif; margin: 2em auto; max-width: 60em; color: #222; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2em .8em .2em 0;
vertical-align: top; border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
svg { background: #fafafa; border: 1px solid #ddd; } .line { fill: none; stroke: #2a6fb0; }
.bad { fill: #c0392b; } .bar { fill: #2a6fb0; } .error { color: #c0392b; } .note { color: #777; }
"""

_Point: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """What the page needs to know of one segment.

    Attributes
    ----------
    points : tuple of (int, int)
        Timestamps in ms and offsets of some of its batches, in their order.
    day_bytes : dict of int to int
        Bytes by days since 1970.
    """

    topic_partition: TopicPartition
    batches: int
    size_bytes: int
    points: tuple[_Point, ...]
    day_bytes: dict[int, int]


@dataclass(slots=True)
class Checked:
    """The segments that were looked at, by path.

    Attributes
    ----------
    is_drawn : bool
        Whether a page is to be made of it.
    """

    is_drawn: bool = False
    segments: dict[str, CheckedSegment] = field(default_factory=dict)
    directories: dict[str, TopicPartition] = field(default_factory=dict)
    size_bytes: int = 0

    def note(self, survey: SegmentSurvey) -> None:
        """Take note of a segment; a second look at one replaces the first."""
        segment = survey.segment
        self.directories[segment.directory] = segment.topic_partition
        before = self.segments.get(segment.log_path)
        self.size_bytes += survey.file_bytes - (before.size_bytes if before else 0)
        self.segments[segment.log_path] = CheckedSegment(
            topic_partition=segment.topic_partition,
            batches=len(survey.positions),
            size_bytes=survey.file_bytes,
            points=_points(survey) if self.is_drawn else (),
            day_bytes=_day_bytes(survey) if self.is_drawn else {},
        )

    def totals(self) -> dict[str, int]:
        """Count what was looked at; each copy of a partition counts."""
        return {
            "partitions": len(self.directories),
            "segments": len(self.segments),
            "batches": sum(segment.batches for segment in self.segments.values()),
            "sizeBytes": self.size_bytes,
        }

    def described(self) -> str:
        """Say so in words."""
        counts = self.totals()
        size = format_size(counts.pop("sizeBytes"))
        words = [f"{count} {_ONE[name] if count == 1 else name}" for name, count in counts.items()]
        return ", ".join([*words, size])


def report_page(checked: Checked, findings: Sequence[Finding], seconds: float) -> str:
    """Write the page."""
    faults = sum(not finding.is_harmless for finding in findings)
    summary = f"{faults} wrong, {len(findings) - faults} harmless"
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f"<title>segmentlog verify</title><style>{_STYLE}</style></head><body>\n",
            f"<h1>segmentlog verify</h1><p>Checked {_text(checked.described())} in ",
            f"{seconds:.1f} s: {summary}.</p>\n<h2>Findings</h2>\n",
            _findings_table(findings),
            "<h2>Bytes a day</h2>\n",
            _days_drawing(checked.segments.values()),
            "<h2>Offsets over time</h2>\n<p>What is missing is drawn in red.</p>\n",
            *_partition_drawings(checked, findings),
            "</body></html>\n",
        ]
    )


def _points(survey: SegmentSurvey) -> tuple[_Point, ...]:
    """Choose some of the batches that have a time."""
    rows = np.flatnonzero(survey.max_timestamps >= 0)
    if len(rows) > _MOST_POINTS:
        rows = rows[np.linspace(0, len(rows) - 1, _MOST_POINTS).astype(int)]
    times, offsets = survey.max_timestamps[rows], survey.last_offsets[rows]
    return tuple(zip(times.tolist(), offsets.tolist(), strict=True))


def _day_bytes(survey: SegmentSurvey) -> dict[int, int]:
    ends = np.append(survey.positions[1:], survey.end_position)[: len(survey.positions)]
    is_timed = survey.max_timestamps >= 0
    days, rows = np.unique(survey.max_timestamps[is_timed] // DAY_MS, return_inverse=True)
    sizes = np.bincount(rows, (ends - survey.positions)[is_timed], len(days))
    return {day: int(size) for day, size in zip(days.tolist(), sizes.tolist(), strict=True)}


def _findings_table(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<p>None.</p>\n"
    headings = ("level", "code", "partition", "place", "offsets", "what", "what mends it")
    lines = [f"<table><tr>{''.join(f'<th>{heading}</th>' for heading in headings)}</tr>\n"]
    for finding in findings:
        place = finding.path if finding.position < 0 else f"{finding.path} at {finding.position}"
        what = f"{finding.detail}; {finding.broker}" if finding.broker else finding.detail
        cells: tuple[object, ...] = (
            finding.level,
            finding.code,
            finding.topic_partition or "",
            place,
            _offsets(finding),
            what,
            finding.kind.mend,
        )
        shown = "".join(f"<td>{_text(cell)}</td>" for cell in cells)
        lines.append(f'<tr class="{finding.level}">{shown}</tr>\n')
    return "".join([*lines, "</table>\n"])


def _offsets(finding: Finding) -> str:
    if finding.start_offset is None:
        return ""
    if finding.end_offset is None:
        return f"from {finding.start_offset} on"
    return f"{finding.start_offset} to {finding.end_offset - 1}"


def _days_drawing(segments: Iterable[CheckedSegment]) -> str:
    """Draw a bar for each day; a calendar that ends before a day shows none of it."""
    sizes: dict[int, int] = defaultdict(int)
    for segment in segments:
        for day, size in segment.day_bytes.items():
            if day <= _LAST_DAY:
                sizes[day] += size
    if not sizes:
        return "<p>No batch has a time.</p>\n"
    last = max(sizes)
    first = max(min(sizes), last - _MOST_DAYS + 1)
    step, largest = _WIDTH / (last - first + 1), max(sizes.values())
    bars = []
    for day, size in sorted(sizes.items()):
        if day < first:
            continue
        height = max(size / largest * (_HEIGHT - _MARGIN), 1)
        title = _text(f"{(EPOCH + timedelta(days=day)).date()}: {format_size(size)}")
        bars.append(
            f'<rect class="bar" x="{(day - first) * step:.2f}" y="{_HEIGHT - height:.1f}" '
            f'width="{max(step * 0.9, 0.5):.2f}" height="{height:.1f}">'
            f"<title>{title}</title></rect>"
        )
    span = " to ".join(str((EPOCH + timedelta(days=day)).date()) for day in (first, last))
    return f"{_svg(bars)}<p>{_text(span)}, at most {_text(format_size(largest))} a day</p>\n"


def _partition_drawings(checked: Checked, findings: Sequence[Finding]) -> Iterator[str]:
    points: dict[str, list[_Point]] = defaultdict(list)
    missing: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for path, segment in checked.segments.items():
        points[_folder(path)] += segment.points
    for finding in findings:
        if finding.start_offset is not None:
            missing[_folder(finding.path)].append((finding.start_offset, finding.end_offset))
    for directory, topic_partition in sorted(
        checked.directories.items(), key=lambda item: (item[1], item[0])
    ):
        yield f"<h3>{_text(topic_partition)}</h3><p>{_text(directory)}</p>\n"
        drawn = _some(sorted(points[directory], key=lambda point: point[1]), _MOST_DRAWN)
        yield _offsets_drawing(drawn, missing[directory])


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _some(points: Sequence[_Point], most: int) -> Sequence[_Point]:
    """Choose as many points at most, the first and the last among them."""
    if len(points) <= most:
        return points
    return [points[row] for row in np.linspace(0, len(points) - 1, most).astype(int)]


def _offsets_drawing(points: Sequence[_Point], missing: Sequence[tuple[int, int | None]]) -> str:
    """Draw offsets upwards over time; a red band for offsets that are missing."""
    if not points and not missing:
        return "<p>No batch has a time.</p>\n"
    times = [time for time, _ in points] or [0]
    known = [offset for _, offset in points]
    known += [offset for span in missing for offset in span if offset is not None]
    first_time, last_time = min(times), max(times)
    first, last = min(known), max(known)

    def x(time: int) -> float:
        share = (time - first_time) / max(last_time - first_time, 1)
        return _MARGIN + share * (_WIDTH - 2 * _MARGIN)

    def y(offset: int) -> float:
        share = (offset - first) / max(last - first, 1)
        return _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)

    shapes = []
    for start, end in missing:
        bottom, top = y(start), y(last if end is None else max(end, start))
        title = _text(f"offsets {start} to {'the end' if end is None else end - 1}")
        shapes.append(
            f'<rect class="bad" x="0" y="{top:.1f}" width="{_WIDTH}" '
            f'height="{max(bottom - top, 2):.1f}"><title>{title}</title></rect>'
        )
    line = " ".join(f"{x(time):.1f},{y(offset):.1f}" for time, offset in points)
    shapes.append(f'<polyline class="line" points="{line}"/>')
    span = f"offsets {first} to {last}"
    if points:
        span += f", {format_time(first_time)} to {format_time(last_time)}"
    return f"{_svg(shapes)}<p>{_text(span)}</p>\n"


def _svg(shapes: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">'
        f"{''.join(shapes)}</svg>\n"
    )


def _text(value: Any) -> str:
    return escape(printable(str(value)))

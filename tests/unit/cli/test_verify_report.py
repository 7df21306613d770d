"""The page of a verification."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spark_segmentlog.cli.verify_report import Checked, CheckedSegment, report_page
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.testing.builder import LogBuilder, v2_batch
from tests.support.running import batches, flip, run, three_segments


class Seen(HTMLParser):
    """Collects the tags of a page, and what would load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [name for name, _ in attrs if name in ("src", "href", "srcset", "onload")]


def test_the_page_draws_damage_and_lists_findings(tmp_path: Path) -> None:
    _, second, _ = three_segments(tmp_path / "log")
    flip(second, 100)
    page = tmp_path / "report.html"
    ran = run("verify", tmp_path / "log", "--report", page)
    assert ran.exit_code == 1
    text = page.read_text()
    seen = Seen(text)
    assert seen.loads == []
    assert {"html", "style", "svg", "table"} <= set(seen.tags)
    assert "script" not in seen.tags
    drawings = [
        ElementTree.fromstring(drawing) for drawing in re.findall(r"<svg.*?</svg>", text, re.S)
    ]
    days, offsets = drawings
    assert [rect.attrib["class"] for rect in days] == ["bar"]
    assert [shape.attrib["class"] for shape in offsets] == ["bad", "line"]
    assert offsets[0][0].text == "offsets 5 to 5"
    assert len(offsets[1].attrib["points"].split()) == 14
    assert "corrupt-batch" in text
    assert "recover --apply" in text


def test_nothing_out_of_a_log_is_markup() -> None:
    hostile = '<script>alert("x")</script>&\x00'
    findings = [
        Finding(
            kind=FindingKind.CORRUPT_BATCH,
            path=f"/{hostile}/x.log",
            detail=hostile,
            topic_partition=TopicPartition(hostile, 0),
            start_offset=3,
            end_offset=None,
        )
    ]
    checked = Checked(directories={f"/{hostile}": TopicPartition(hostile, 0)})
    text = report_page(checked, findings, 0.1)
    assert "script" not in Seen(text).tags
    assert "<script" not in text
    assert "\x00" not in text
    assert text.count("&lt;script&gt;") == 5


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 2**62])
def test_any_times_can_be_drawn(tmp_path: Path, timestamp_ms: int) -> None:
    data = [v2_batch([b""], max_timestamp=timestamp_ms, count=0)]
    LogBuilder(tmp_path / "log").partition("t", 0, [data])
    assert run("verify", tmp_path / "log", "--report", tmp_path / "page").exit_code == 0
    assert "</html>" in (tmp_path / "page").read_text()


def test_a_long_segment_is_drawn_with_few_points(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "log").partition("t", 0, [batches(1000, value=b"")])
    run("verify", tmp_path / "log", "--report", tmp_path / "page")
    (line,) = re.findall(r'<polyline class="line" points="(.*?)"', (tmp_path / "page").read_text())
    assert len(line.split()) == 200


def test_a_drawing_of_very_many_segments_stays_small() -> None:
    topic_partition = TopicPartition("t", 0)
    segments = {
        f"/d/t-0/{number:020}.log": CheckedSegment(
            topic_partition=topic_partition,
            batches=200,
            size_bytes=1,
            points=tuple((1000 + number, 200 * number + place) for place in range(200)),
            day_bytes={0: 1},
        )
        for number in range(100)
    }
    checked = Checked(segments=segments, directories={"/d/t-0": topic_partition})
    (drawn,) = re.findall(r'<polyline class="line" points="(.*?)"', report_page(checked, [], 0.1))
    assert len(drawn.split()) == 2000
    assert "offsets 0 to 19999" in report_page(checked, [], 0.1)

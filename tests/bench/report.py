"""Write what ``python -m tests.bench --json FILE`` measured into the pages that tell of speed.

A place in a page names groups of benchmarks, and gets the table of their figures; a place whose
groups were not measured stays as it is. What was measured goes beside the page, with its plots.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.measured import (
    Measurements,
    conditions,
    from_json,
    joined,
    median_text,
    range_text,
    table,
    to_json,
)
from tests.bench.plots import PLOTS
from tests.bench.targets import TARGETS_OF_GROUPS
from tests.support.project import PROJECT

PAGE_NAME: Final = "speed.md"
JSON_NAME: Final = "speed.json"
# Figures that the README quotes, by group.
QUOTED: Final = {
    "decode": "arrow_against_java_100",
    "kafka-source": "kafka_source_scan",
    "spark-read": "spark_rows_100",
    "spark-write": "write_against_parquet",
    "spark-stream": "stream_latency",
}
_PLACE: Final = re.compile(
    r"(<!-- measured: ([\w -]+) -->\n)(.*?)(<!-- /measured -->)", flags=re.DOTALL
)


def page_with(page: str, measured: Measurements) -> str:
    """Put tables and plots into the page on speed, and the machine where ``conditions`` stands."""
    return _filled(page, lambda groups: _content(groups, measured))


def readme_with(readme: str, measured: Measurements) -> str:
    """Put the quoted figures into the README, if all of them were measured."""
    return _filled(readme, lambda _: _quotes(measured))


def _filled(page: str, content: Callable[[list[str]], str]) -> str:
    """Write each place again that there is content for."""
    written, count = _PLACE.subn(
        lambda found: f"{found[1]}{content(found[2].split()) or found[3]}{found[4]}", page
    )
    if not count:
        raise ValueError("the page has no place for what was measured")
    return written


def _content(groups: list[str], measured: Measurements) -> str:
    if groups == ["conditions"]:
        return conditions(measured)
    targets = [target for group in groups for target in TARGETS_OF_GROUPS.get(group, ())]
    parts = [table(measured, targets)]
    parts += [
        f"![{plot.what}]({plot.name})\n"
        for plot in PLOTS
        if plot.group in groups and plot.is_measured(measured)
    ]
    return "\n".join(part for part in parts if part)


def _quotes(measured: Measurements) -> str:
    by_name = {figure.name: figure for figure in measured.figures}
    if not by_name.keys() >= set(QUOTED.values()):
        return ""
    rows = [
        f"| {target.what} | {median_text(by_name[name], target)} | {range_text(by_name[name])} "
        f"| `make bench BENCH_ARGS={group}` |"
        for group, name in QUOTED.items()
        for target in TARGETS_OF_GROUPS[group]
        if target.name == name
    ]
    heading = ["| what | median | range | command |", "|---|---|---|---|"]
    return "\n".join([*heading, *rows]) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.report", description=__doc__)
    parser.add_argument("json", type=Path, nargs="+", help="what was measured, in several goes")
    parser.add_argument("--docs", type=Path, default=PROJECT / "docs")
    parser.add_argument("--readme", type=Path, default=PROJECT / "README.md")
    parsed = parser.parse_args(arguments)
    measured = joined([from_json(path.read_text()) for path in parsed.json])
    for path, written in (
        (parsed.docs / PAGE_NAME, page_with),
        (parsed.readme, readme_with),
    ):
        path.write_text(written(path.read_text(), measured))
    for plot in PLOTS:
        if plot.is_measured(measured):
            (parsed.docs / plot.name).write_text(plot.draw(measured))
    (parsed.docs / JSON_NAME).write_text(to_json(measured))


if __name__ == "__main__":
    main()

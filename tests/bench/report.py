"""Write what `python -m tests.bench --json FILE` measured into the page on speed, and its plot."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from tests.bench.measured import Measurements, from_json, table
from tests.bench.plots import rates_svg
from tests.bench.targets import TARGETS
from tests.support.project import PROJECT

PLOT_NAME: Final = "speed-rates.svg"
_PLACE: Final = re.compile(r"(<!-- measured -->\n).*?(<!-- /measured -->)", flags=re.DOTALL)


def with_measurements(page: str, measured: Measurements) -> str:
    """Put the table and the plot into a page."""
    plot = f"![Records a second of log to Arrow and its peers]({PLOT_NAME})\n"
    text = f"{table(measured, TARGETS)}\n{plot}"
    written, count = _PLACE.subn(lambda found: f"{found[1]}{text}{found[2]}", page)
    if count != 1:
        raise ValueError(f"{count} places for measurements in the page, not one")
    return written


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.report", description=__doc__)
    parser.add_argument("json", type=Path, help="what was measured")
    parser.add_argument("--docs", type=Path, default=PROJECT / "docs")
    parsed = parser.parse_args(arguments)
    measured = from_json(parsed.json.read_text())
    page = parsed.docs / "speed.md"
    page.write_text(with_measurements(page.read_text(), measured))
    (parsed.docs / PLOT_NAME).write_text(rates_svg(measured))


if __name__ == "__main__":
    main()

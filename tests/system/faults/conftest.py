"""Counts the points at which a path was cut short, and tells them at the end of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

PROPERTY = "points"


@pytest.fixture
def count_points(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Book points of a path under a variant of what goes wrong there."""

    def count(path: str, variant: str, operations: int, points: int) -> None:
        record_property(PROPERTY, (path, variant, operations, points))

    return count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Give a line a path: operations, points, variants, seconds."""
    rows: dict[str, list[tuple[str, int, int, float]]] = defaultdict(list)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in report.user_properties:
                if name == PROPERTY and report.when == "call":
                    path, variant, operations, points = value
                    rows[path].append((variant, operations, points, report.duration))
    if not rows:
        return
    terminalreporter.section("points at which a path was cut short, and then run again")
    for path, found in sorted(rows.items()):
        variants = ", ".join(sorted({variant for variant, _, _, _ in found}))
        terminalreporter.write_line(
            f"{path}: {max(run[1] for run in found)} operations, "
            f"{sum(run[2] for run in found)} points ({variants}), "
            f"{sum(run[3] for run in found):.0f} s"
        )
    total = sum(run[2] for found in rows.values() for run in found)
    terminalreporter.write_line(f"in all: {total} points")

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.harness import Figure, Target
from tests.bench.measured import from_json, measurements, table, to_json
from tests.bench.plots import rates_svg
from tests.bench.report import PLOT_NAME, main, with_measurements

TARGETS = (Target(name="arrow_against_java_lz4", what="log to Arrow, lz4", bound=1.0),)


def run(value: float) -> list[Figure]:
    sides = {"lz4: one thread": 2e6 / value, "lz4: FileRecords": 2e6}
    return [Figure(name="arrow_against_java_lz4", value=value, detail="", sides=sides)]


def test_runs_become_medians_and_ranges() -> None:
    measured = measurements([run(value) for value in (0.5, 0.25, 0.75, 0.5, 0.6)])
    (figure,) = measured.figures
    assert figure.median == 0.5
    assert figure.sides["lz4: one thread"][1] == 8e6
    text = table(measured, TARGETS)
    assert (
        "| log to Arrow, lz4 | 0.5 x | 0.25 to 0.75 | <= 1 x | `arrow_against_java_lz4` |" in text
    )
    assert f"5 runs on {measured.machine['cpus']} cores" in text
    assert f"pyarrow {measured.versions['pyarrow']}" in text


def test_what_was_measured_survives_json() -> None:
    measured = measurements([run(0.5), run(0.7)])
    assert table(from_json(to_json(measured)), TARGETS) == table(measured, TARGETS)
    assert from_json(to_json(measured)).figures == measured.figures


def test_the_page_has_the_last_measurements(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n\n<!-- measured -->\n<!-- /measured -->\n\nmore\n")
    for value in (0.5, 0.25):
        measured = measurements([run(value)])
        (tmp_path / "figures.json").write_text(to_json(measured))
        main([str(tmp_path / "figures.json"), "--docs", str(tmp_path)])
    text = page.read_text()
    assert "| 0.25 x |" in text
    assert "| 0.5 x |" not in text
    assert text.startswith("# Speed\n")
    assert text.endswith("<!-- /measured -->\n\nmore\n")
    assert f"({PLOT_NAME})" in text
    assert (tmp_path / PLOT_NAME).read_text() == rates_svg(measured)
    with pytest.raises(ValueError, match="0 places"):
        with_measurements("# Speed\n", measured)


def test_a_plot_is_the_same_each_time_and_names_its_sides() -> None:
    measured = measurements([run(0.5)])
    svg = rates_svg(measured)
    assert svg == rates_svg(measured)
    assert svg.count("<svg ") == 1
    for name in ("one thread", "FileRecords", "lz4"):
        assert f"<!-- {name} -->" in svg

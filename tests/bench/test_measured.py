from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bench.harness import Figure, Target
from tests.bench.measured import (
    CEILING,
    from_json,
    joined,
    measurements,
    medians,
    table,
    to_json,
)
from tests.bench.plots import planning_svg, queries_svg, rates_svg
from tests.bench.report import JSON_NAME, QUOTED, main, page_with, readme_with

NAME = "arrow_against_java_lz4"
TARGET = Target(name=NAME, what="log to Arrow, lz4", bound=1.0)
TARGETS = (TARGET, Target(name="other", what="not measured", bound=1.0))

PAGE = """# Speed

<!-- measured: conditions -->
<!-- /measured -->

<!-- measured: decode -->
earlier
<!-- /measured -->

<!-- measured: tier -->
earlier
<!-- /measured -->
"""
README_PAGE = "# Speed\n<!-- measured: quotes -->\nearlier\n<!-- /measured -->\nmore\n"


def run(value: float, name: str = NAME) -> list[Figure]:
    sides = {"lz4: one thread": 2e6 / value, "lz4: FileRecords": 2e6}
    return [Figure(name=name, value=value, detail="", sides=sides)]


def curve(name: str) -> list[Figure]:
    return [
        Figure(name=f"{name}_{count}", value=1.0, detail="", sides={f"{count}: all": count * 2.0})
        for count in (10, 100)
    ]


def test_runs_become_medians_and_ranges() -> None:
    runs = [run(value) for value in (0.5, 0.25, 0.75, 0.5, 0.6)]
    measured = measurements(runs)
    (figure,) = measured.figures
    assert figure.median == 0.5
    assert figure.sides["lz4: one thread"][1] == 8e6
    assert [found.value for found in medians(runs)] == [0.5]
    (row,) = table(measured, TARGETS).splitlines()[2:]
    assert row == f"| log to Arrow, lz4 | 0.5 | 0.25 to 0.75 in 5 | at most 1 | `{NAME}` |"


def test_a_table_hides_no_bound_and_no_aim_that_is_missed() -> None:
    measured = measurements([run(0.9)])
    for bound, aim, cell in (
        (1.0, 0.95, "at most 1"),
        (1.0, 0.6, "at most 1; 0.6 is aimed at, **not reached**"),
        (0.8, 0.6, "at most 0.8, **not met**; 0.6 is aimed at, **not reached**"),
    ):
        target = dataclasses.replace(TARGET, bound=bound, aim=aim)
        assert f"| {cell} | `{NAME}` |" in table(measured, [target])
    assert table(measured, TARGETS[1:]) == ""


def test_a_table_tells_what_is_the_most_that_can_be() -> None:
    measured = measurements([[*run(0.9), *run(0.8, f"{NAME}_{CEILING}")]])
    cell = "at most 1; the ceiling here is 0.8"
    assert f"| {cell} | `{NAME}` |" in table(measured, TARGETS)


def test_what_was_measured_survives_json() -> None:
    measured = measurements([run(0.5), run(0.7)])
    assert from_json(to_json(measured)) == measured


def test_goes_on_one_machine_are_joined() -> None:
    parts = [measurements([run(0.5)]), measurements([run(0.7), run(0.6), run(1.0, "other")])]
    figure, other = joined(parts).figures
    assert figure.values == (0.5, 0.7, 0.6)
    assert len(figure.sides["lz4: one thread"]) == 3
    assert other.values == (1.0,)
    elsewhere = dataclasses.replace(parts[0], versions={"Python": "3"})
    with pytest.raises(ValueError, match="measured on"):
        joined([parts[0], elsewhere])


def test_pages_have_the_last_measurements(tmp_path: Path) -> None:
    page, readme = tmp_path / "speed.md", tmp_path / "README.md"
    page.write_text(PAGE)
    readme.write_text(README_PAGE)
    noted = tmp_path / "figures.json"
    paths = ["--docs", str(tmp_path), "--readme", str(readme)]
    for value in (0.5, 0.25):
        quoted = [figure for name in QUOTED.values() for figure in run(0.7, name)]
        measured = measurements([[*run(value), *quoted]])
        noted.write_text(to_json(measured))
        main([str(noted), *paths])
    text = page.read_text()
    assert f"pyarrow {measured.versions['pyarrow']}" in text
    assert "| 0.25 |" in text
    assert "| 0.5 |" not in text
    assert "](speed-rates.svg)" in text
    assert "<!-- measured: tier -->\nearlier\n<!-- /measured -->" in text
    assert "| 0.7 | 0.7 to 0.7 in 1 | `make bench BENCH_ARGS=decode` |" in readme.read_text()
    assert readme.read_text().endswith("<!-- /measured -->\nmore\n")
    assert page_with(text, measured) == text
    assert readme_with(readme.read_text(), measured) == readme.read_text()
    assert (tmp_path / "speed-rates.svg").read_text() == rates_svg(measured)
    assert not (tmp_path / "speed-queries.svg").exists()
    assert from_json((tmp_path / JSON_NAME).read_text()) == measured
    nothing = dataclasses.replace(measured, figures=())
    assert page_with(PAGE, nothing) == PAGE
    assert readme_with(README_PAGE, nothing) == README_PAGE
    with pytest.raises(ValueError, match="no place"):
        page_with("# Speed\n", measured)


def test_a_plot_is_the_same_each_time_and_names_its_sides() -> None:
    measured = measurements([[*run(0.5), *curve("queried"), *curve("planned")]])
    for draw, names in (
        (rates_svg, ("one thread", "FileRecords", "lz4")),
        (queries_svg, ("all", "seconds")),
        (planning_svg, ("all", "seconds")),
    ):
        svg = draw(measured)
        assert svg == draw(measured)
        assert svg.count("<svg ") == 1
        for name in names:
            assert f">{name}</text>" in svg

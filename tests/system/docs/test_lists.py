"""What the pages list is what there is: errors, conditions, verbs, findings, bounds, links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from spark_segmentlog import errors
from spark_segmentlog.cli.verbs import VERBS
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.findings import FindingKind
from tests.bench.__main__ import CURVES, GROUPS
from tests.bench.measured import from_json
from tests.bench.plots import PLOTS
from tests.bench.report import JSON_NAME, PAGE_NAME, page_with, readme_with
from tests.bench.targets import TARGETS
from tests.support.kafka_differences import DIFFERENCES
from tests.support.pages import DOCS, FORMS, README, pages, sections, site_pages
from tests.support.project import PROJECT
from tests.support.running import run
from tests.support.vendor_environment import install_commands


def test_every_class_of_errors_has_its_advice() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, SegmentLogError)
    }
    advice = sections((DOCS / "errors.md").read_text(), 3)
    assert advice.keys() == classes
    assert all(text.strip() for text in advice.values())


def test_conditions_of_data_loss_are_those_of_the_code() -> None:
    code = "".join(path.read_text() for path in (PROJECT / "spark_segmentlog").rglob("*.py"))
    page = (DOCS / "errors.md").read_text()
    pattern = r"\bKAFKA_DATA_LOSS\.[A-Z_]+\b"
    assert set(re.findall(pattern, page)) == set(re.findall(pattern, code))


def test_packages_to_install_beside_a_vendors_spark_are_all_others() -> None:
    needed = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
    others = [each for each in needed if not each.startswith("pyspark")]
    told = install_commands((DOCS / "compatibility.md").read_text())
    assert told == [["install", *others], ["install", "--no-deps", "spark-segmentlog"]]


def test_every_difference_from_the_kafka_source_is_shown_beside_a_broker() -> None:
    folder = PROJECT / "tests" / "system" / "interop"
    tests = "".join(path.read_text() for path in folder.glob("test_kafka_*.py"))
    assert [name for name in DIFFERENCES if f'"{name}"' not in tests] == []


def test_every_verb_has_its_section() -> None:
    page = sections((DOCS / "operating.md").read_text(), 3)
    verbs = {heading.strip("`").split()[0] for heading in page if heading.startswith("`")}
    assert verbs == VERBS.keys()


def test_commands_that_the_forms_ask_for_are_there() -> None:
    texts = [form.read_text() for form in FORMS]
    lines = [line for text in texts for line in re.findall(r"^    segmentlog (.+)$", text, re.M)]
    assert len(lines) >= 4
    for line in lines:
        assert run(*line.split(), "--help").exit_code == 0, line
    targets = [name for text in texts for name in re.findall(r"`make ([a-z -]+)", text)]
    makefile = (PROJECT / "Makefile").read_text()
    for name in " ".join(targets).split():
        assert f"\n{name}:" in makefile, name


def test_kinds_of_findings_are_those_of_the_code() -> None:
    page = sections((DOCS / "operating.md").read_text(), 2)
    table = page["What `verify` and `preflight` find"]
    rows = re.findall(r"^\| `([a-z ]+)` \|.*\| (.*) \|$", table, flags=re.MULTILINE)
    assert sorted(rows) == sorted((str(kind), kind.mend) for kind in FindingKind)


def test_bounds_of_speed_are_those_that_the_benchmarks_hold() -> None:
    page = (DOCS / "speed.md").read_text()
    targets = {target.name: target for target in TARGETS}
    seen = []
    for *_, bound, figures in [*_rows(page, "what", 4), *_rows(page, "what", 5)]:
        for name in re.findall(r"`(\w+)`", figures):
            target = targets[name]
            limit = re.match(r"(?:at least |at most )?([\d.]+)", bound)
            assert limit is not None
            assert float(limit[1]) == target.bound, name
            assert bound.startswith("at least ") != target.at_most, name
            seen.append(name)
    assert len(set(seen)) == len(seen) > 20


def test_groups_of_benchmarks_are_there() -> None:
    page = (DOCS / "speed.md").read_text()
    commands = re.findall(r"BENCH_ARGS=\"?([\w -]+)", page)
    measured = re.findall(r"<!-- measured: ([\w -]+) -->", page)
    named = {name for words in commands for name in words.split() if name[0] != "-"}
    placed = {name for words in measured for name in words.split()} - {"conditions"}
    assert named == placed == GROUPS.keys() | CURVES.keys()


def test_pages_on_speed_have_what_was_measured() -> None:
    measured = from_json((DOCS / JSON_NAME).read_text())
    page, readme = (DOCS / PAGE_NAME).read_text(), README.read_text()
    assert page_with(page, measured) == page
    assert readme_with(readme, measured) == readme
    assert [plot.name for plot in PLOTS if (DOCS / plot.name).exists()] == [
        plot.name for plot in PLOTS if plot.is_measured(measured)
    ]


def _rows(text: str, heading: str, columns: int) -> list[list[str]]:
    """Give the rows of all tables of so many columns whose first one has this heading."""
    found = []
    for table in re.findall(r"((?:^\|.*\|\n)+)", text, flags=re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")]
        if rows[0][0] == heading and len(rows[0]) == columns:
            found += rows[2:-1]
    return found


def test_links_between_files_lead_somewhere() -> None:
    for page in pages():
        for link in re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (PROJECT / "conf" / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r"[\w-]+\.md", navigation)) == [page.name for page in site_pages()]


def test_pages_say_nothing_twice() -> None:
    seen: dict[str, Path] = {}
    for page in pages():
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"^\|.*\n", "", text, flags=re.MULTILINE)
        prose = re.sub(r"\n(?=[^\n#<-])", " ", text)
        for sentence in re.findall(r"[A-Z][^.|\n]{60,}\.", prose):
            assert seen.setdefault(sentence, page) == page, sentence

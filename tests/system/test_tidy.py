"""What a machine can hold of a tidy project: tests of each module, layers, a name for one thing."""

from __future__ import annotations

import ast
import configparser
import re
from collections import defaultdict
from pathlib import Path

from tests.support.project import PROJECT

PACKAGE = PROJECT / "spark_segmentlog"
UNIT = PROJECT / "tests" / "unit"
MODULES = sorted(
    str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if path.name[0] != "_"
)
SOURCES = [
    path
    for folder in ("spark_segmentlog", "tests", "examples")
    for path in sorted((PROJECT / folder).rglob("*.py"))
]

# What has one name in two rooms for a reason.
SAME_NAMES = {
    "parse_message": "compiled, and its plain twin",
    "read_varint": "compiled, and its plain twin",
    "main": "the entry of a process: of the command and of Spark's daemon",
}


# Names that say several things, and the modules in which they say one.
INDEXES = (
    "log/formats/index_file.py",
    "log/formats/offset_index.py",
    "log/formats/time_index.py",
    "log/formats/transaction_index.py",
)
HASH_TABLES = (
    "log/transactions/outcomes.py",
    "log/transactions/producer_tracker.py",
    "record/compact/offset_map.py",
    "record/kernels/filter.py",
    "record/kernels/producers.py",
)
UNCLEAR_NAMES: dict[str, tuple[str, ...]] = {
    "it": (),
    "take": (),
    "of": (),
    "tail": ("testing/builder.py",),  # what stands after the batches of a made-up segment
    "slot": (*INDEXES, *HASH_TABLES),
    "slots": (*INDEXES, *HASH_TABLES),
    "behind": ("query/progress.py",),
    "anew": (),
}
# Behind is who lags, and what is left; nothing is done anew.
SAYS_BEHIND = (
    "cli/lag.py",
    "cli/verbs.py",
    "log/upkeep/cut.py",
    "log/write/append_state.py",
    "log/write/open_commits.py",
    "query/group_lag.py",
    "query/lag.py",
    "query/progress.py",
    "spark/worker_heap.py",
)

# Notes to oneself, and paths of a machine.
FORBIDDEN = re.compile(r"T[O]DO|FI[X]ME|X{3}\b|/ho[m]e/|/wo[r]k/")


def own_tests(module: str) -> Path:
    path = Path(module)
    return UNIT / path.parent / f"test_{path.name}"


def test_every_module_has_its_tests() -> None:
    assert [module for module in MODULES if not own_tests(module).exists()] == []


def test_every_test_of_a_module_is_named_by_it_or_by_what_it_shows() -> None:
    rooms = {str(Path(module).parent) for module in MODULES}
    for path in UNIT.rglob("test_*.py"):
        assert str(path.parent.relative_to(UNIT)) in rooms, path


def public_names(path: Path) -> set[str]:
    """Names of the classes and functions at the top of a module."""
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"
    }


def test_no_two_public_things_have_one_name() -> None:
    """What ships for tests of others is written without the code under test, its names too."""
    modules: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        if not module.startswith("testing/"):
            for name in public_names(PACKAGE / module):
                modules[name].append(module)
    twice = {name: found for name, found in modules.items() if len(found) > 1}
    assert twice.keys() == SAME_NAMES.keys(), twice


def test_every_module_is_in_a_layer() -> None:
    """Rooms with rooms within have layers that name all of them; `lint-imports` holds the rest."""
    contracts = configparser.ConfigParser()
    contracts.read(PROJECT / "conf" / "importlinter.ini")
    layered = {
        section["containers"].strip(): section
        for section in contracts.values()
        if section.get("type") == "layers"
    }
    assert all(section["exhaustive"] == "True" for section in layered.values())
    folders = {path.parent for path in PACKAGE.rglob("*/__init__.py")}
    with_rooms = {folder.parent for folder in folders} - {PROJECT}
    names = {".".join(folder.relative_to(PROJECT).parts) for folder in with_rooms}
    assert names == layered.keys()


def names_given(tree: ast.AST) -> set[str]:
    """List the names that a module gives: of functions, classes, arguments, variables, fields."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name.lstrip("_"))
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name.lstrip("_"))
    return names


def test_no_name_says_several_things() -> None:
    """In tests too, where who lags is behind."""
    for path in SOURCES:
        for name in names_given(ast.parse(path.read_text())) & UNCLEAR_NAMES.keys():
            homes = [PACKAGE / module for module in UNCLEAR_NAMES[name]]
            tests = [own_tests(module) for module in UNCLEAR_NAMES[name]]
            is_of_a_test = PACKAGE not in path.parents and name == "behind"
            assert is_of_a_test or path in (*homes, *tests), f"{name} in {path}"


def test_after_is_not_behind_and_again_is_not_anew() -> None:
    for module in MODULES:
        words = set(re.findall(r"[a-z]+", (PACKAGE / module).read_text()))
        assert "anew" not in words, module
        assert "behind" not in words or module in SAYS_BEHIND, module


def test_nothing_is_left_for_later_and_no_text_knows_a_machine() -> None:
    texts = [
        PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
    ]
    for folder in ("spark_segmentlog", "tests", "examples", "docs", "conf"):
        texts += [
            path for path in (PROJECT / folder).rglob("*") if path.suffix in (".py", ".md", ".ini")
        ]
    for path in texts:
        assert FORBIDDEN.findall(path.read_text()) == [], path

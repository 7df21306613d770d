"""The table of verbs: a made-up one is used, and none is loaded before it is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from spark_segmentlog.cli.main import main
from spark_segmentlog.cli.output import Column, OutputFormat, print_rows
from spark_segmentlog.cli.verbs import VERBS, Effect, Verb
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.doc_tables import section_of, verb_table, verbs_table, with_new_verbs
from tests.support.pages import DOCS
from tests.support.project import PROJECT
from tests.support.running import batches, objects, run
from tests.support.three_days import SETTINGS

LETTERS = Verb("letters", Effect.SHOWS, "Count letters.")
COLUMNS = (Column("word", "word"), Column("letters", "letters", "number"))


@click.command(name="letters")
@click.argument("word")
@click.option("--twice", is_flag=True, help="Count them two times.")
def letters_verb(word: str, twice: bool) -> None:
    """Count the letters of WORD."""
    row = {"word": word, "letters": len(word) * (1 + twice)}
    print_rows(COLUMNS, [row], OutputFormat.TEXT)


@pytest.fixture
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("spark_segmentlog.cli.letters")
    vars(module).update(letters_verb=letters_verb, COLUMNS={"letters": COLUMNS})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(VERBS, "letters", LETTERS)


@pytest.mark.usefixtures("_made_up")
def test_an_added_verb_runs_and_is_in_the_help() -> None:
    assert run("letters", "abc", "--twice").lines == ["word  letters", "abc         6"]
    lines = [line.split(maxsplit=1) for line in run("--help").lines if line]
    assert ["letters", "Count letters."] in lines


@pytest.mark.usefixtures("_made_up")
@pytest.mark.parametrize(("words", "expected"), [("le", "letters"), ("letters --t", "--twice")])
def test_an_added_verb_is_completed(words: str, expected: str) -> None:
    typed = f"segmentlog {words}"
    words_before = str(typed.count(" "))
    variables = {"COMP_WORDS": typed, "COMP_CWORD": words_before}
    completed = CliRunner().invoke(
        main,
        [],
        prog_name="segmentlog",
        env={"_SEGMENTLOG_COMPLETE": "bash_complete", **variables},
    )
    found = [line.partition(",")[2] for line in completed.stdout.splitlines()]
    assert found == expected.split()


@pytest.mark.usefixtures("_made_up")
def test_an_added_verb_is_in_the_pages() -> None:
    assert "| `letters` | Count letters. |  |\n" in verbs_table()
    assert "| `--twice` |  | Count them two times. |\n" in verb_table(LETTERS)
    section = section_of(LETTERS)
    assert section.startswith(
        "### `letters WORD`\n\nCount the letters of WORD.\n\n<!-- table: verb"
    )
    assert "<!-- table: fields of letters -->" in section
    page = (DOCS / "operating.md").read_text()
    assert with_new_verbs(page).count(section) == 1
    assert with_new_verbs(with_new_verbs(page)) == with_new_verbs(page)


def test_no_verb_is_loaded_for_the_help_of_all() -> None:
    code = (
        "import sys\n"
        "from spark_segmentlog.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print(*sorted(set(sys.modules) & {'pyarrow', 'numba', 'numpy', 'pyspark'}))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('spark_segmentlog.log')))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-2:] == ["", ""]


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_and_its_command_have_one_name(name: str) -> None:
    assert VERBS[name].name == VERBS[name].command.name == name


@pytest.mark.parametrize(
    "words", ["ls", "ls --partitions", "ls --segments", "create new", "retain", "compact"]
)
def test_objects_have_the_fields_that_the_pages_name(tmp_path: Path, words: str) -> None:
    LogBuilder(tmp_path).partition("t", 0, [batches(2), batches(1, base_offset=2)])
    more = {
        "retain": ["--topic", "t", "--retention-ms", 1, "--dry-run"],
        "compact": ["--topic", "t", "--dry-run", *SETTINGS],
    }
    columns = VERBS[words.split()[0]].columns[words.removesuffix(" new")]
    for row in objects(*words.split(), tmp_path, *more.get(words, [])):
        assert row.keys() == {column.field for column in columns}


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_is_collected_after_a_verb_is_loaded_as_it_was_before(is_enabled: bool) -> None:
    program = (
        "import gc, sys\n"
        "from spark_segmentlog.cli.verbs import VERBS\n"
        f"gc.enable() if {is_enabled} else gc.disable()\n"
        "before = gc.get_freeze_count()\n"
        "VERBS['verify'].command\n"
        "print(gc.isenabled(), gc.get_freeze_count() > before)\n"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    assert ran.stdout.split() == [str(is_enabled), str(is_enabled)]

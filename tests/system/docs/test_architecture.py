"""The architecture page is held against the tree and against what runs."""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.prepare import CommitRequest
from spark_segmentlog.log.write.staged_leftovers import new_write_id
from spark_segmentlog.query.options import parse_read_options, parse_write_options
from spark_segmentlog.query.row_stager import RowStager, segment_config
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest
from spark_segmentlog.spark.batch_reader import SegmentLogReader
from spark_segmentlog.spark.writer import plan_write
from tests.support.durability import RULES
from tests.support.pages import DOCS, sections
from tests.support.project import PROJECT
from tests.support.sample import DATA, make_logs

PACKAGE = "spark_segmentlog"
MOST_CALLS = 20
PAGE = (DOCS / "architecture.md").read_text()


def calls_of(heading: str) -> list[str]:
    """List the calls that a section names, in its order."""
    return re.findall(r"^\d+\. `([\w.]+)`", sections(PAGE, 2)[heading], flags=re.MULTILINE)


@contextmanager
def first_calls() -> Iterator[list[str]]:
    """Note every function of the package when it is called for the first time."""
    called: dict[str, None] = {}
    names: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event == "call" and module.startswith(f"{PACKAGE}."):
            called.setdefault(
                f"{module.removeprefix(f'{PACKAGE}.')}.{frame.f_code.co_qualname}", None
            )

    before: Callable[..., object] | None = sys.getprofile()
    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(before)
    names.extend(called)


def assert_in_order(wanted: list[str], called: list[str]) -> None:
    assert set(wanted) <= set(called), sorted(set(wanted) - set(called))
    assert sorted(wanted, key=called.index) == wanted


def test_rooms_are_those_of_the_tree() -> None:
    rooms = re.findall(r"^\| `(\w+)/` \|", sections(PAGE, 2)["Rooms"], flags=re.MULTILINE)
    folders = [path.parent.name for path in (PROJECT / PACKAGE).glob("*/__init__.py")]
    assert sorted(rooms) == sorted(folders)


def test_rooms_are_in_the_order_of_their_layers() -> None:
    rooms = re.findall(r"^\| `(\w+)/` \|", sections(PAGE, 2)["Rooms"], flags=re.MULTILINE)
    contracts = configparser.ConfigParser()
    contracts.read(PROJECT / "conf" / "importlinter.ini")
    layers = contracts["importlinter:contract:rooms"]["layers"].split()
    order = [layer.removeprefix(f"{PACKAGE}.") for layer in reversed(layers) if layer != ":"]
    below = [room for room in order if (PROJECT / PACKAGE / room).is_dir()]
    assert [room for room in rooms if room in below] == below


def test_rooms_within_are_in_the_order_of_their_layers() -> None:
    cells = re.findall(r"^\| (`\w+/\w+/`.*?) \|", sections(PAGE, 2)["Rooms"], flags=re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+/\w+)/`", cell)]
    folders = [path.parent for path in (PROJECT / PACKAGE).glob("*/*/__init__.py")]
    assert sorted(named) == sorted(f"{folder.parent.name}/{folder.name}" for folder in folders)
    contracts = configparser.ConfigParser()
    contracts.read(PROJECT / "conf" / "importlinter.ini")
    for room in ("record", "log"):
        layers = contracts[f"importlinter:contract:{room}-rooms"]["layers"].splitlines()
        levels = {name: -level for level, line in enumerate(layers) for name in line.split()}
        of_room = [levels[name.partition("/")[2]] for name in named if name.startswith(room)]
        assert of_room == sorted(of_room), room


def test_modules_that_are_named_are_there() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)
    assert named
    for name in named:
        assert (PROJECT / PACKAGE / name).is_file(), name


def test_a_record_goes_from_file_to_row_as_the_page_says(tmp_path: Path) -> None:
    make_logs(tmp_path)
    wanted = calls_of("From file to row")
    with first_calls() as called:
        options = parse_read_options({"path": f"{tmp_path}{DATA}/orders-0"})
        shape = shape_rows(default_schema(options), options)
        reader = SegmentLogReader(ReadRequest(options=options, shape=shape))
        rows = sum(
            arrow_batch.num_rows
            for part in reader.partitions()
            for arrow_batch in reader.read(part)
        )
    assert rows == 6
    assert 0 < len(wanted) <= MOST_CALLS
    assert_in_order(wanted, called)


def test_a_record_goes_from_row_to_file_as_the_page_says(tmp_path: Path) -> None:
    wanted = calls_of("From row to file")
    schema = StructType([StructField(name, StringType()) for name in ("key", "value")])
    with first_calls() as called:
        options = parse_write_options({"path": str(tmp_path / "log"), "topic": "t"})
        plan = plan_write(options, schema)
        write_id = new_write_id()
        stager = RowStager(plan, write_id=write_id, task_id=0, attempt_id=0)
        stager.write(pa.record_batch({"key": ["a"], "value": ["b"]}))
        request = CommitRequest(
            layout=plan.layout,
            staged=(stager.finish(),),
            write_ids=(write_id,),
            config=segment_config(options),
        )
        commit_staged_batches(request)
    assert 0 < len(wanted) <= MOST_CALLS
    assert_in_order(wanted, called)


@pytest.mark.parametrize("wanted", [["b", "a"], ["a", "c"]])
def test_another_order_and_a_call_that_is_not_made_are_seen(wanted: list[str]) -> None:
    with pytest.raises(AssertionError):
        assert_in_order(wanted, ["a", "b"])


def test_the_order_of_what_lasts_is_that_of_the_rules() -> None:
    table = sections(PAGE, 2)["What has to be on the disk before what"]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table, flags=re.MULTILINE)[1:]
    assert RULES.items() <= dict(rows).items()

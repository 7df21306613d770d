"""``segmentlog verify``: what it finds, what it has looked at, and its page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, v2_batch
from tests.support.broker_data import BrokerLog
from tests.support.project import PROJECT
from tests.support.running import NAME, batches, contents, flip, objects, run, three_segments


@pytest.mark.parametrize("producer", ["kafka-4.3.1", "kafka-2.8.2"])
def test_nothing_is_wrong_with_what_a_broker_wrote(
    broker_log: Callable[[str, str], BrokerLog], producer: str
) -> None:
    log = broker_log(producer, "clean")
    ran = run("verify", *log.log_directories, "--deep")
    assert (ran.exit_code, ran.lines[1:]) == (0, ["0 wrong, 0 harmless"])


def test_indexes_of_one_entry_or_of_zeros_are_right(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    zeros = bytes(12_000)
    data = batches(1, base_offset=2076)
    log.partition("zeros", 0, [SegmentSpec(data, index=zeros, time_index=zeros)])
    log.partition("single", 0, [SegmentSpec(data, index=bytes(8))])
    assert [row["type"] for row in objects("verify", tmp_path)] == ["summary"]


WRONG = "record batch crc mismatch: stored 0x9164e259, computed 0x2d79b823"


def test_bad_bytes_are_told_with_their_place_and_nothing_is_written(tmp_path: Path) -> None:
    _, second, _ = three_segments(tmp_path)
    flip(second, 100)
    before = contents(tmp_path)
    ran = run("verify", tmp_path)
    cut = "a broker cuts it there, and deletes every segment after it"
    text = f"corrupt batch: {WRONG} (file {second}, position 0, offset 5 is missing); {cut}"
    assert (ran.exit_code, ran.lines[0]) == (1, text)
    assert ran.lines[-1].endswith(" wrong, 0 harmless")
    assert objects("verify", tmp_path, exit_code=1)[0] == {
        "type": "finding",
        "code": "corrupt-batch",
        "level": "error",
        "kind": "corrupt batch",
        "topic": "t",
        "partition": 0,
        "path": str(second),
        "position": 0,
        "startOffset": 5,
        "endOffset": 6,
        "detail": WRONG,
        "severity": "loss",
        "broker": cut,
        "mend": "`segmentlog salvage`, or `segmentlog recover --apply --cut-bad-batches`",
        "refusesWrites": True,
        "isHarmless": False,
    }
    assert contents(tmp_path) == before


def test_a_missing_index_is_harmless(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(batches(1), index=False)])
    ran = run("verify", tmp_path)
    assert ran.exit_code == 0
    path = f"{tmp_path}/t-0/{NAME}.index"
    assert [ran.lines[0], ran.lines[-1]] == [
        (
            "missing index: no offset index: lookups walk the segment from its start "
            f"(file {path}) (harmless)"
        ),
        "0 wrong, 1 harmless",
    ]


def test_only_the_topics_named_are_verified_and_records_only_if_deep(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("good", 0, [batches(1)])
    log.partition("bad", 0, [[v2_batch([b"\x7f\x00"], max_timestamp=-1)]])
    assert run("verify", tmp_path).exit_code == 0
    assert run("verify", tmp_path, "--deep").exit_code == 1
    assert run("verify", tmp_path, "--deep", "--topic", "good").exit_code == 0


def test_the_summary_says_what_was_checked(tmp_path: Path) -> None:
    three_segments(tmp_path)
    LogBuilder(tmp_path).partition("u", 0, [batches(2)])
    size = 17 * len(batches(1)[0])
    assert re.fullmatch(
        r"checked 2 partitions, 4 segments, 17 batches, 9.5 KiB in [\d.]+ s",
        run("verify", tmp_path).lines[0],
    )
    flip(tmp_path / "u-0" / f"{NAME}.log", 100)
    (tmp_path / "t-0" / f"{NAME}.index").unlink()
    found = objects("verify", tmp_path, exit_code=1)
    assert isinstance(found[-1].pop("seconds"), float)
    assert found[-1] == {
        "type": "summary",
        "partitions": 2,
        "segments": 4,
        "batches": 16,
        "sizeBytes": size,
        "errors": len(found) - 2,
        "warnings": 0,
        "notes": 1,
    }


def test_what_a_broker_has_left_is_verified_on_request(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [batches(1)])
    left = log.partition("gone", 0, [batches(2)], directory_suffix=".0a-delete")
    flip(left / f"{NAME}.log", 100)
    assert run("verify", tmp_path).exit_code == 0
    ran = run("verify", tmp_path, "--include-deleted")
    assert ran.exit_code == 1
    assert ran.lines[0].startswith("corrupt batch: ")


def test_a_bar_moves_on_a_terminal_and_leaves_the_output_alone(tmp_path: Path) -> None:
    three_segments(tmp_path)
    ours, theirs = os.openpty()
    ran = subprocess.run(
        [sys.executable, "-m", "spark_segmentlog", "verify", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "xterm-256color"},
        check=True,
        text=True,
    )
    os.close(theirs)
    drawn = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert ran.stdout.splitlines()[1:] == ["0 wrong, 0 harmless"]
    assert "verify" in drawn
    assert "8.6" in drawn

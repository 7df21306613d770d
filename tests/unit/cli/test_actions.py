"""What was mended, as lines and as objects."""

from __future__ import annotations

import json

import pytest

from spark_segmentlog.cli.actions import print_actions
from spark_segmentlog.cli.output import OutputFormat
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction, RecoveryKind


@pytest.fixture
def actions() -> list[RecoveryAction]:
    cut = RecoveryAction(
        kind=RecoveryKind.CUT,
        path="/l/t-0/x.log",
        detail="9 bytes",
        is_done=False,
        is_left=True,
        topic_partition=TopicPartition("t", 0),
    )
    commit = RecoveryAction(
        kind=RecoveryKind.END_COMMIT, path="/l/\x1b", detail="two steps", is_done=True
    )
    return [cut, commit]


def test_text_says_what_is_left_and_escapes_what_cannot_be_printed(
    actions: list[RecoveryAction], capsys: pytest.CaptureFixture[str]
) -> None:
    print_actions(actions, OutputFormat.TEXT)
    assert capsys.readouterr().out.splitlines() == [
        "cut: not done, 9 bytes (file /l/t-0/x.log)",
        "end commit: two steps (file /l/\\x1b)",
    ]


def test_objects_name_the_partition_where_there_is_one(
    actions: list[RecoveryAction], capsys: pytest.CaptureFixture[str]
) -> None:
    print_actions(actions, OutputFormat.JSON)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["topic"], row["partition"]) for row in rows] == [("t", 0), (None, None)]
    assert [(row["isDone"], row["isLeft"]) for row in rows] == [(False, True), (True, False)]

"""Fields of commit files: read back as they were, and each value checked before it is used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.commit_fields import (
    checked_integer,
    checked_path,
    checked_staged_name,
    checked_text,
    decode,
    encode,
    object_from_bytes,
    object_to_bytes,
    parsing,
    partition_from_fields,
    partition_to_fields,
)
from spark_segmentlog.log.directory.commit_steps import (
    AdoptStep,
    CopyStep,
    PartitionPlan,
    SegmentPlan,
)
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentEnd

STAGED = ("/d0/a.staged", "/d1/b.staged")
PLAN = PartitionPlan(
    topic_partition=TopicPartition("t", 3),
    log_directory="/d0",
    start_before=2,
    end_before=7,
    start_after=2,
    end_after=9,
    leader_epoch=4,
    leader_epochs=(LeaderEpoch(1, 0), LeaderEpoch(4, 6)),
    partition_metadata=b"version: 0\n",
    segments=(
        SegmentPlan(
            base_offset=7,
            file_bytes_before=-1,
            valid_bytes_before=0,
            bytes_after=130,
            indexed=SegmentEnd.empty(7, created_ms=1_700_000_000_000),
        ),
    ),
    steps=(
        AdoptStep(
            staged_path=STAGED[0],
            base_offset=7,
            size_bytes=70,
            inode=2**63,
            first_header=b"\x00\xff",
            header_checksum=1,
        ),
        CopyStep(
            staged_path=STAGED[1], staged_position=5, length_bytes=60, base_offset=7, position=70
        ),
    ),
)


def fields_of(plan: PartitionPlan) -> dict[str, Any]:
    """Give the fields as they come out of JSON."""
    fields = partition_to_fields(plan, {path: place for place, path in enumerate(STAGED)})
    found: dict[str, Any] = json.loads(object_to_bytes(fields))
    return found


def test_a_plan_reads_back_as_it_was() -> None:
    assert partition_from_fields(fields_of(PLAN), "/d0", STAGED) == PLAN


def test_the_epoch_that_earlier_releases_wrote_is_read() -> None:
    fields = fields_of(PLAN)
    del fields["leader_epochs"]
    plan = partition_from_fields({**fields, "epoch_start_offset": 6}, "/d0", STAGED)
    assert plan.leader_epochs == (LeaderEpoch(4, 6),)
    plan = partition_from_fields({**fields, "epoch_start_offset": None}, "/d0", STAGED)
    assert plan.leader_epochs is None


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "../x"},
        {"partition": -1},
        {"leader_epoch": 2**31},
        {"before": [1]},
        {"steps": [["adopt", 1, 7, 70, 1, "", 1]]},
        {"steps": [["move", 0]]},
        {"steps": [["copy", 2, 0, 0, 0, 0]]},
        {"segments": [{}]},
        {"partition_metadata": "no base64"},
    ],
)
def test_a_value_that_no_release_wrote_is_one_error(change: dict[str, Any]) -> None:
    with pytest.raises(RecoveryError, match=r"not a commit file .* \(file here\)"), parsing("here"):
        partition_from_fields({**fields_of(PLAN), **change}, "/d0", STAGED)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 2**63])
def test_a_number_is_a_number_within_bounds(value: object) -> None:
    with pytest.raises(ValueError, match="is no number from 0 to"):
        checked_integer(value)


def test_texts_that_lead_elsewhere_are_refused() -> None:
    with pytest.raises(ValueError, match="zero byte"):
        checked_text("a\0b")
    with pytest.raises(ValueError, match="no absolute path"):
        checked_path("d0/../d1")
    with pytest.raises(ValueError, match="no name of a staged file"):
        checked_staged_name("../a.staged")
    assert checked_path("/d0/../d1") == "/d1"


def test_bytes_travel_as_text() -> None:
    for data in (None, b"", bytes(range(256))):
        assert decode(encode(data)) == data


def test_another_format_is_refused() -> None:
    assert object_from_bytes(b'{"format":2}', 2) == {"format": 2}
    with pytest.raises(ValueError, match="format 3, this release knows 2"):
        object_from_bytes(b'{"format":3}', 2)

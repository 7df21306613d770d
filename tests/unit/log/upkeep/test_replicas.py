"""Which offsets of which replica count, by tables; leader epochs as a follower compares them."""

from __future__ import annotations

import pytest

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.upkeep.replicas import (
    Hole,
    JoinedLog,
    Replica,
    end_in_lineage,
    join_replicas,
)

Epochs = list[tuple[int, int]]


def epochs(*entries: tuple[int, int]) -> tuple[LeaderEpoch, ...]:
    return tuple(LeaderEpoch(epoch, start) for epoch, start in entries)


def replica(
    number: int,
    start: int,
    end: int,
    *,
    holes: tuple[tuple[int, int], ...] = (),
    known: Epochs | None = None,
    known_end: int = 0,
    kept_from: int = 0,
) -> Replica:
    return Replica(
        number=number,
        start_offset=start,
        end_offset=end,
        kept_from=kept_from,
        known_end=max(end, known_end),
        epochs=epochs(*(known or [(0, start)])),
        holes=tuple(
            Hole(start_offset=a, end_offset=b, detail=f"hole of {number}") for a, b in holes
        ),
    )


def shares(joined: JoinedLog) -> list[tuple[int, int, int]]:
    return [(share.number, share.start_offset, share.end_offset) for share in joined.shares]


def lost(joined: JoinedLog) -> list[tuple[int, int | None]]:
    return [(lost_range.start_offset, lost_range.end_offset) for lost_range in joined.lost]


@pytest.mark.parametrize(
    ("own", "lineage", "end"),
    [
        # The same history, or one that the leader goes on with.
        ([(0, 0)], [(0, 0)], MAX_OFFSET),
        ([(0, 0)], [(0, 0), (1, 20)], 20),
        ([(0, 0), (1, 20)], [(0, 0), (1, 20), (3, 50)], 50),
        # A leader that was deposed wrote on in its epoch, or in one of its own.
        ([(0, 0), (1, 20)], [(0, 0), (2, 15)], 15),
        ([(0, 0), (1, 20), (3, 40)], [(0, 0), (1, 20), (2, 30), (4, 60)], 30),
        ([(0, 0), (2, 10)], [(0, 0), (1, 20), (3, 25)], 10),
        # A log start that was raised cuts either.
        ([(2, 40)], [(0, 0), (1, 20), (2, 30), (3, 90)], 90),
        ([(0, 0), (1, 20), (2, 30)], [(2, 45), (3, 90)], 90),
        ([(0, 0), (1, 20)], [(3, 300)], 300),
        ([], [(3, 300)], 300),
        ([(1, 5)], [], MAX_OFFSET),
    ],
)
def test_a_replica_counts_up_to_where_it_and_the_lineage_part(
    own: Epochs, lineage: Epochs, end: int
) -> None:
    assert end_in_lineage(epochs(*own), epochs(*lineage)) == end


def test_the_leader_has_the_newest_epoch_then_the_farthest_end_then_comes_first() -> None:
    older, newer = replica(0, 0, 90), replica(1, 0, 30, known=[(0, 0), (1, 20)])
    assert join_replicas([older, newer]).leader == 1
    assert join_replicas([replica(0, 0, 30), replica(1, 0, 31)]).leader == 1
    assert join_replicas([replica(0, 0, 30), replica(1, 0, 30)]).leader == 0


def test_holes_are_filled_by_the_next_replica_that_has_the_offsets() -> None:
    joined = join_replicas(
        [
            replica(0, 0, 100, holes=((10, 20), (50, 60))),
            replica(1, 0, 90, holes=((15, 18),)),
            replica(2, 16, 55),
        ]
    )
    assert shares(joined) == [
        *((0, 0, 10), (1, 10, 15), (2, 16, 18), (1, 18, 20), (0, 20, 50)),
        *((1, 50, 60), (0, 60, 100)),
    ]
    assert lost(joined) == [(15, 16)]
    assert joined.lost[0].detail == "hole of 0; hole of 1"


def test_what_lies_beyond_the_lineage_is_neither_served_nor_lost() -> None:
    joined = join_replicas(
        [replica(0, 0, 90), replica(1, 0, 30, known=[(0, 0), (1, 20)], holes=((5, 8),))]
    )
    assert shares(joined) == [(1, 0, 5), (0, 5, 8), (1, 8, 30)]
    assert joined.lost == ()
    assert joined.epochs == epochs((0, 0), (1, 20))


def test_a_replica_that_reaches_farther_in_the_same_epoch_goes_on() -> None:
    joined = join_replicas([replica(0, 0, 30, known_end=40), replica(1, 20, 38, known_end=45)])
    assert shares(joined) == [(0, 0, 20), (1, 20, 38)]
    assert lost(joined) == [(38, 45)]


def test_offsets_from_an_unknown_end_on_are_lost_unless_another_has_them() -> None:
    damaged = replica(0, 0, 30, holes=((30, MAX_OFFSET),))
    assert lost(join_replicas([damaged])) == [(30, None)]
    assert join_replicas([damaged, replica(1, 0, 35)]).lost == ()


def test_a_log_starts_where_the_first_replica_does_but_not_below_what_was_deleted() -> None:
    whole, late = replica(0, 0, 30), replica(1, 20, 30)
    assert join_replicas([late, whole]).start_offset == 0
    trimmed = replica(1, 25, 30, kept_from=25)
    joined = join_replicas([trimmed, whole])
    assert (joined.start_offset, shares(joined)) == (25, [(1, 25, 30)])


def test_earlier_epochs_come_from_the_replicas_that_know_them() -> None:
    leader = replica(0, 50, 90, known=[(2, 50), (3, 70)])
    follower = replica(1, 0, 60, known=[(0, 0), (1, 20), (2, 30)])
    joined = join_replicas([leader, follower])
    assert joined.epochs == epochs((0, 0), (1, 20), (2, 30), (3, 70))
    assert shares(joined) == [(1, 0, 50), (0, 50, 90)]

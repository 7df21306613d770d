"""What is known of a copied segment."""

from __future__ import annotations

import pickle

from spark_segmentlog.log.tier.remote_segment import (
    RemotePiece,
    RemoteSegment,
    SegmentPlace,
    is_uuid,
)

SEGMENT = RemoteSegment(segment_id="A" * 22, places=(SegmentPlace(0, "t-0/5"),), base_offset=5)


def test_ids_are_kafkas() -> None:
    assert is_uuid("_" * 11 + "-" * 11)
    for text in ("", "A" * 21, "A" * 23, "A" * 21 + "=", "A" * 21 + "\n"):
        assert not is_uuid(text)


def test_a_piece_is_cut_where_its_segment_begins_before_it() -> None:
    assert not RemotePiece(SEGMENT, 5).is_cut
    assert RemotePiece(SEGMENT, 6, 9).is_cut


def test_segments_and_keys_travel() -> None:
    for thing in (SEGMENT, RemotePiece(SEGMENT, 6, 9)):
        assert pickle.loads(pickle.dumps(thing)) == thing

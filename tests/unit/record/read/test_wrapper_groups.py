"""Groups of wrappers that are decompressed before they are decoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_segmentlog.record.codec.block_window import NO_LIMIT
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.kernels.decode import MESSAGE_OFFSET, MESSAGE_ROW
from spark_segmentlog.record.read.decoder_input import DecoderInput
from spark_segmentlog.record.read.wrapper_groups import WrapperGroups
from spark_segmentlog.record.types import Bools, bytes_view
from spark_segmentlog.testing.builder import RecordSpec, legacy_message_set
from tests.support.decoding import as_array, room_of, scan

RECORDS = [RecordSpec(value=b"v%d" % number) for number in range(3)]


def wrappers(*base_offsets: int, magic: int = 1) -> bytes:
    return b"".join(
        legacy_message_set(magic, RECORDS, base_offset=base, codec="gzip") for base in base_offsets
    )


def opened(data: bytes, good: Sequence[bool] | None = None) -> list[list[tuple[int, int]]]:
    """Open all wrappers, the others being passed over: row and offset of the messages by group."""
    flat = as_array(data)
    source = DecoderInput(flat, bytes_view(flat), scan(data).entries, 0)
    rows = np.arange(len(source.entries))
    is_good: Bools = np.ones(len(rows), np.bool_) if good is None else np.array(good)
    groups = WrapperGroups(DecompressionBuffer(NO_LIMIT))
    found, done = [], 0
    while done < len(rows):
        count, messages = groups.open(source, rows[done:], is_good[done:], check_crcs=True)
        listed = messages[:, [MESSAGE_ROW, MESSAGE_OFFSET]].tolist()
        found.append([(row, offset) for row, offset in listed])
        done += max(count, 1)
    return found


def messages_of(row: int, base_offset: int) -> list[tuple[int, int]]:
    return [(row, base_offset + place) for place in range(len(RECORDS))]


@pytest.mark.parametrize("magic", [0, 1])
def test_ordinary_wrappers_are_opened_together(magic: int) -> None:
    assert opened(wrappers(0, 3, 6, magic=magic)) == [
        messages_of(0, 0) + messages_of(1, 3) + messages_of(2, 6)
    ]


def test_a_wrapper_whose_checksum_is_wrong_ends_a_group() -> None:
    assert opened(wrappers(0, 3, 6), [True, False, True]) == [
        messages_of(0, 0),
        [],
        messages_of(2, 6),
    ]


def test_after_wrappers_that_were_opened_in_vain_fewer_are_opened() -> None:
    assert opened(wrappers(0, 5, 8, 11, 14, 17)) == [
        messages_of(0, 0),
        [],
        messages_of(2, 8),
        messages_of(3, 11) + messages_of(4, 14),
        messages_of(5, 17),
    ]


def test_a_wrapper_that_does_not_fit_is_not_opened() -> None:
    with room_of(20):
        assert opened(wrappers(0, 3)) == [[], []]

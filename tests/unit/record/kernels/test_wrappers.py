"""Which wrappers are ordinary; that their messages are read as others' is seen by `decoding`."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.record.header_fields import BASE_OFFSET, HEADER_FIELDS
from spark_segmentlog.record.kernels import decode
from spark_segmentlog.record.kernels.wrappers import list_wrapped
from spark_segmentlog.testing.builder import legacy_message, legacy_wrapper
from tests.support.decoding import as_array, scan


def inner(magic: int, *offsets: int) -> bytes:
    return b"".join(
        legacy_message(magic, key=b"k", value=b"v", offset=offset) for offset in offsets
    )


def listed(magic: int, offset: int, data: bytes, *, first: int, room: int = 10) -> list[int] | None:
    """Offsets of the messages of a wrapper, of which there is a second; None for other ones."""
    table = scan(legacy_wrapper(magic, data, offset=offset, codec="gzip")).entries
    table[0, BASE_OFFSET] = first
    headers = np.empty((room, HEADER_FIELDS), np.int64)
    messages = np.empty((2 * room, decode.MESSAGE_FIELDS), np.int64)
    spans = np.array([[0, len(data)], [len(data), 2 * len(data)]])
    rows = np.zeros(2, np.int64)
    found = list_wrapped(as_array(data * 2), spans, table, rows, True, headers, messages)
    if found == (0, 0):
        return None
    count = found[1] // 2
    assert found == (2, 2 * count)
    offsets: list[int] = messages[:count, decode.MESSAGE_OFFSET].tolist()
    assert offsets == messages[count : 2 * count, decode.MESSAGE_OFFSET].tolist()
    return offsets


def test_offsets_of_format_1_count_from_the_last_message() -> None:
    assert listed(1, 57, inner(1, 0, 1, 3), first=54) == [54, 55, 57]


def test_offsets_of_format_0_are_the_messages_own() -> None:
    assert listed(0, 57, inner(0, 54, 57), first=54) == [54, 57]


@pytest.mark.parametrize(
    ("magic", "offset", "data", "first"),
    [
        (1, 57, inner(1, 0, 1, 3), 53),
        (1, 57, inner(1, 1, 0, 3), 55),
        (1, 2, inner(1, 0, 1, 3), -1),
        (1, 57, inner(0, 0, 1), 56),
        (1, 57, inner(1, 0, 1)[:-1], 56),
        (1, 57, inner(1, 0, 1)[:-1] + b"x", 56),
        (1, 57, b"", 57),
        (0, 57, inner(0, 0, 1), 56),
    ],
    ids=["gap", "order", "beyond", "format", "cut", "checksum", "empty", "format 0"],
)
def test_other_wrappers_are_not_listed(magic: int, offset: int, data: bytes, first: int) -> None:
    assert listed(magic, offset, data, first=first) is None


def test_a_wrapper_without_room_is_not_listed() -> None:
    assert listed(1, 57, inner(1, *range(11)), first=47) is None
    assert listed(1, 57, inner(1, *range(10)), first=48) == [*range(48, 58)]

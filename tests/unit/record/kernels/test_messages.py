"""Messages of formats 0 and 1 by the compiled parser."""

from __future__ import annotations

import pytest

from spark_segmentlog.errors import (
    InvalidRecordError,
)
from spark_segmentlog.testing.builder import (
    legacy_message,
)
from tests.support.decoding import (
    outcomes_of_decoder,
    outcomes_of_twin,
    read,
)


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("length", [b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00", b"\x00\x00\x00\x63"])
def test_field_length_that_is_no_length_is_an_error(field: str, length: bytes) -> None:
    data = bytearray(legacy_message(1, offset=0, key=b"kk", value=b"vv"))
    at = 26 if field == "key" else 32
    data[at : at + 4] = length
    found = list(outcomes_of_decoder(bytes(data), check_crcs=False))
    assert found == list(outcomes_of_twin(bytes(data), check_crcs=False))
    with pytest.raises(InvalidRecordError, match=f"{field} length"):
        read(bytes(data), check_crcs=False)


def test_bytes_left_over_in_a_message_are_an_error() -> None:
    data = bytearray(legacy_message(0, offset=0, value=b"vv"))
    data[22:26] = b"\x00\x00\x00\x01"
    with pytest.raises(InvalidRecordError, match="1 bytes are left over"):
        read(bytes(data), check_crcs=False)

"""Bytes from anywhere as one kind of array."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.read.header_table import (
    scan_headers,
)
from tests.support.decoding import (
    decoder,
    small_batch,
)


def test_bytes_that_cannot_be_written_are_read_all_the_same() -> None:
    data = small_batch(0, 3)
    fixed = np.frombuffer(data, np.uint8)
    table = scan_headers(fixed, 0, len(fixed), file_position=0)
    reader = decoder()
    assert list(reader.decode(fixed, table, file_position=0)) == []
    last = reader.flush()
    assert last is not None
    assert last.num_rows == 3

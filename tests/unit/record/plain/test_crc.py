"""Checksums: known values, exact ranges, and every compiled way against the libraries."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.plain.crc import crc32, crc32c

CHECK = b"123456789"


def test_checksums_of_the_check_string() -> None:
    # The "check" values of both algorithms in the catalogue of CRCs.
    assert crc32(CHECK) == 0xCBF43926
    assert crc32c(CHECK) == 0xE3069283
    assert crc32c(np.frombuffer(CHECK, np.uint8)) == 0xE3069283

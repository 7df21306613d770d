"""Records of the metadata topic, byte by byte."""

from __future__ import annotations


def sample_segment() -> bytes:
    partition = b"\2t" + bytes(range(16)) + b"\0\0\0\1" + b"\0"
    segment_id = partition + bytes(range(16, 32)) + b"\0"
    numbers = (0).to_bytes(8, "big") + (99).to_bytes(8, "big") + bytes(4)
    times = (1700000000000).to_bytes(8, "big") * 2
    epochs = b"\3" + b"\0\0\0\0" + bytes(8) + b"\0" + b"\0\0\0\2" + (50).to_bytes(8, "big") + b"\0"
    end = b"\0\0\x10\0" + b"\4abc" + b"\1" + b"\1\0\1\1"
    return b"\1\0\0" + segment_id + numbers + times + epochs + end


SAMPLES = (
    sample_segment(),
    b"\1\1\0\2t" + bytes(16) + b"\0\0\0\1\0" + bytes(16) + b"\0" + bytes(12) + b"\0\1\0",
    b"\1\2\0\2t" + bytes(16) + b"\0\0\0\1\0" + bytes(12) + b"\0\0",
)

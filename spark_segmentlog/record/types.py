"""Types that several files of this room name."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ByteSource: TypeAlias = bytes | bytearray | memoryview
Bytes: TypeAlias = NDArray[np.uint8]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
Uint64s: TypeAlias = NDArray[np.uint64]
Bools: TypeAlias = NDArray[np.bool_]
ArrowArray: TypeAlias = Any

NO_INTS: Int64s = np.empty(0, np.int64)
NO_SPANS: Int64s = np.empty((0, 2), np.int64)


def bytes_view(data: ByteSource | Bytes) -> memoryview:
    """Look at contiguous bytes of any kind."""
    return data.data if isinstance(data, np.ndarray) else memoryview(data)


def flat_bytes(buffer: Bytes) -> Bytes:
    """Give bytes as the kernels take them: one kind of array, so that they are compiled once."""
    if buffer.dtype == np.uint8 and buffer.flags.c_contiguous and buffer.flags.writeable:
        return buffer
    return np.array(buffer, dtype=np.uint8, order="C")

"""The decoders of lz4 and zstd themselves, by address, for kernels that call them.

From Python a call costs as much as a small block, and holds the GIL. They are those that packages
lz4 and zstandard were built with and export. Where there is no such package (an installation
without dependencies), or it exports nothing, blocks are decoded one by one by cramjam.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from functools import cache
from importlib import util
from typing import Any


@cache
def lz4_decoder() -> int | None:
    """Give the address of ``LZ4_decompress_safe``."""
    library = _library("lz4.block._block", "LZ4_decompress_safe")
    return None if library is None else _address_of(library.LZ4_decompress_safe)


class ZstdDecoder:
    """``ZSTD_decompressDCtx`` and a context that is used again, by one thread.

    Attributes
    ----------
    address, context : int
        Of the function and of the context.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.address = _address_of(library.ZSTD_decompressDCtx)
        create, free = library.ZSTD_createDCtx, library.ZSTD_freeDCtx
        create.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        self.context: int = create()
        if not self.context:
            raise MemoryError("no memory for a zstd context")
        weakref.finalize(self, free, self.context)


_of_thread = threading.local()


def zstd_decoder() -> ZstdDecoder | None:
    """Give the decoder of this thread."""
    decoder: ZstdDecoder | None = getattr(_of_thread, "decoder", None)
    if decoder is None:
        names = ("ZSTD_decompressDCtx", "ZSTD_createDCtx", "ZSTD_freeDCtx")
        library = _library("zstandard._cffi", *names)
        decoder = _of_thread.decoder = None if library is None else ZstdDecoder(library)
    return decoder


@cache
def _library(module: str, *names: str) -> ctypes.CDLL | None:
    """Load what a compiled module is made of; None where it is not there or lacks a function."""
    try:
        spec = util.find_spec(module)
        library = None if spec is None else ctypes.CDLL(spec.origin)
    except (ImportError, OSError):
        return None
    return library if all(hasattr(library, name) for name in names) else None


def _address_of(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address

"""Compilation of kernels: a typed `njit` whose cache never gets in the way, and intrinsics.

numba caches compiled code beside the source, or in the user's cache directory. Where neither can
be written (read-only installs, zips, eggs, users without a home) it refuses at import; here a
folder of the user's own among the temporary files is taken then, or else every process compiles
again, and either is told in one line. What somebody else compiled beside the source, or in the
folder that ``NUMBA_CACHE_DIR`` names, is loaded from there and needs no such folder. What the cache
holds belongs to the code of the function and of all that it calls, not to the time stamp of one
file: kernels call each other across files, and a wheel may give all versions of a file the same
time.

Kernels own no memory: they make no arrays, and so are compiled without numba's reference counts,
which cost a record five times what its bytes do.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import stat
import tempfile
from collections.abc import Callable
from importlib import resources
from typing import Any, ClassVar, ParamSpec, TypeVar, get_type_hints

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import caching, cgutils, config, types
from numba.extending import intrinsic

from spark_segmentlog.record.types import Bytes, Int64s

_P = ParamSpec("_P")
_R = TypeVar("_R")

_log = logging.getLogger(__name__)
_CACHE_ERRORS = (OSError, EOFError, pickle.PickleError, AttributeError, ImportError, IndexError)


def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function of flat arrays and numbers at its first call; it runs without the GIL."""
    dispatcher = numba.njit(nogil=True, _nrt=False)(function)
    dispatcher._cache = _cache_of(function)
    compiled: Callable[_P, _R] = dispatcher
    return compiled


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Mark a function that is only ever compiled into the kernels that call it."""
    _digest_of(function)
    compiled: Callable[_P, _R] = numba.njit(inline="always", _nrt=False)(function)
    return compiled


@functools.cache
def _warn_once(what: str, why: str) -> None:
    """Say it once a process, not once a kernel."""
    _log.warning("%s: %s; NUMBA_CACHE_DIR names a folder to keep them in", what, why)


@functools.cache
def _temporary_folder() -> str:
    """Return a folder that this user alone can enter: what is loaded from it is run.

    Raises
    ------
    OSError
        There is none, and none can be made.
    """
    folder = os.path.join(tempfile.gettempdir(), f"segmentlog-kernels-{os.geteuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.geteuid()
        or stat.S_IMODE(found.st_mode) & 0o077
    ):
        raise PermissionError(f"{folder} is no folder that this user alone can enter")
    return folder


class _Place(caching._CacheLocator):  # type: ignore[misc]
    """A folder where numba keeps what it compiled from one file."""

    def __init__(self, function: Callable[..., Any], file: str, folder: str) -> None:
        self._py_file = file
        self._line = function.__code__.co_firstlineno
        self._folder = folder

    def get_cache_path(self) -> str:
        return self._folder

    def get_source_stamp(self) -> str:
        return _own_digest()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _TemporaryPlace(_Place):
    """One among the temporary files, which is made and told of when there is something to keep."""

    def ensure_cache_path(self) -> None:
        if not os.path.isdir(self._folder):
            # Told by the process that makes it alone: the workers of a Spark job come by the dozen.
            _warn_once(
                f"compiled kernels are kept in {_temporary_folder()}",
                "neither the package's folder nor the user's cache can be written",
            )
        super().ensure_cache_path()


@functools.cache
def _holds_kernels(folder: str) -> bool:
    try:
        return any(name.endswith(".nbi") for name in os.listdir(folder))
    except OSError:
        return False


class _ShippedPlace:
    """The named folder, or the one beside the source, if this user may only read it."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Place | None:
        folders = [os.path.join(os.path.dirname(file), "__pycache__")]
        if config.CACHE_DIR:
            subpath = _Place.get_suitable_cache_subpath(file)
            folders.insert(0, os.path.join(config.CACHE_DIR, subpath))
        for folder in folders:
            if not os.access(folder, os.W_OK) and _holds_kernels(folder):
                return _Place(function, file, folder)
        return None


class _WritablePlace:
    """The first of numba's places, or else the temporary one, that takes a file."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        for places in caching.CompileResultCacheImpl._locator_classes:
            place = places.from_function(function, file)
            if place is not None and cls._takes_a_file(place):
                return place
        subpath = _Place.get_suitable_cache_subpath(file)
        return _TemporaryPlace(function, file, os.path.join(_temporary_folder(), subpath))

    @staticmethod
    def _takes_a_file(place: Any) -> bool:
        try:
            place.ensure_cache_path()
        except OSError:
            return False
        return True


class _WritableCacheImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_WritablePlace]


class _ShippedCacheImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_ShippedPlace]


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache, stamped with what was compiled; trouble with it means a compilation."""

    _impl_class: ClassVar = _WritableCacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = caching.IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=_digest_of(function),
        )

    def signatures(self) -> list[Any]:
        """List the arguments for which code is kept, of this processor and others."""
        return [signature for signature, *_ in self._cache_file._load_index()]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            # numba prepares the target for a compilation first, which takes a process longer than
            # all that is loaded here; whoever compiles does so as well.
            compiled = self._load_overload(sig, target_context)
        except _CACHE_ERRORS as error:
            _log.debug("kernel cache %s not read: %s", self.cache_path, error)
            return None
        # Two processes that fill the cache at once may give their files the same number: numba's
        # index then names code for other arguments.
        wanted = tuple(getattr(sig, "args", sig))
        return compiled if compiled is not None and compiled.signature.args == wanted else None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except _CACHE_ERRORS as error:
            _warn_once("compiled kernels are not kept", str(error))


class _ShippedCache(_KernelCache):
    """What came with the environment; the user's own cache has, and takes, what that lacks."""

    _impl_class = _ShippedCacheImpl

    @functools.cached_property
    def _own(self) -> Any:
        return _own_cache(self._py_func)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        compiled = super().load_overload(sig, target_context)
        return compiled if compiled is not None else self._own.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._own.save_overload(sig, data)


def _cache_of(function: Callable[..., Any]) -> Any:
    try:
        return _ShippedCache(function)
    except RuntimeError:  # numba's for a function that has no place
        return _own_cache(function)


def _own_cache(function: Callable[..., Any]) -> Any:
    try:
        return _KernelCache(function)
    except (RuntimeError, OSError) as error:
        _warn_once("kernels are compiled in every process, for seconds each", str(error))
        return caching.NullCache()


def _digest_of(function: Callable[..., Any]) -> str:
    """Hash what a function compiles to: its code, and the constants and kernels that it names.

    It is taken from what this process has loaded: files may have changed since.
    """
    code = function.__code__
    digest = hashlib.sha256(code.co_code)
    digest.update(repr((code.co_consts, code.co_names, code.co_varnames)).encode())
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, np.ndarray):
            digest.update(value.tobytes())
        elif isinstance(value, type):
            digest.update(_layout_of(value).encode())
        elif isinstance(value, int | float):
            digest.update(repr(value).encode())
        else:
            callee = getattr(value, "py_func", None)
            digest.update((_digests.get(callee, "") or _own_digest()).encode())
    for annotation in function.__annotations__.values():
        digest.update(_layout_of(function.__globals__.get(annotation)).encode())
    _digests[function] = digest.hexdigest()
    return _digests[function]


def _layout_of(kind: Any) -> str:
    """Tell the fields of a named tuple, and of those in it, in their order; else nothing.

    numba compiles a field's name to its number, and its own index knows tuples by name alone.
    """
    if not hasattr(kind, "_fields"):
        return ""
    nested = get_type_hints(kind).values()
    return repr((kind._fields, [_layout_of(field) for field in nested]))


_digests: dict[Callable[..., Any] | None, str] = {}


@functools.cache
def _own_digest() -> str:
    """Hash this file, where the intrinsics are."""
    source = resources.files(__package__).joinpath("jit.py")
    return hashlib.sha256(source.read_bytes()).hexdigest()


# Numbers of one width, by the names that numba knows, and as what they are to Python.

int64: Callable[[int], int] = np.int64  # type: ignore[assignment]
uint64: Callable[[int], int] = np.uint64  # type: ignore[assignment]


# Intrinsics. None of them checks a bound: the caller has.


def _copy(
    _context: Any, target: Any, _target_at: Any, source: Any, _source_at: Any, _count: Any
) -> Any:

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target_array = context.make_array(signature.args[0])(context, builder, args[0])
        source_array = context.make_array(signature.args[2])(context, builder, args[2])
        cgutils.raw_memcpy(
            builder,
            builder.gep(target_array.data, [args[1]]),
            builder.gep(source_array.data, [args[3]]),
            args[4],
            1,
        )
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


copy_bytes: Callable[[Bytes, int, Bytes, int, int], None] = intrinsic(_copy)
"""`memcpy` between two byte arrays: target, index, source, index, count."""


def _copy_intrinsic(size: int) -> Callable[[Bytes, int, Bytes, int], None]:
    """Make a copy of so many bytes, which takes a few moves of wide registers."""

    def copy(_context: Any, target: Any, _target_at: Any, source: Any, _source_at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            whole = ir.IntType(8 * size).as_pointer()
            from_array = context.make_array(signature.args[2])(context, builder, args[2])
            to_array = context.make_array(signature.args[0])(context, builder, args[0])
            source_at = builder.bitcast(builder.gep(from_array.data, [args[3]]), whole)
            target_at = builder.bitcast(builder.gep(to_array.data, [args[1]]), whole)
            builder.store(builder.load(source_at, align=1), target_at, align=1)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64), generate

    compiled: Callable[[Bytes, int, Bytes, int], None] = intrinsic(copy)
    return compiled


copy_16_bytes = _copy_intrinsic(16)
copy_64_bytes = _copy_intrinsic(64)
"""Copies of fixed size between two byte arrays: target, index, source, index."""


def _lz4_block(
    _context: Any,
    _decoder: Any,
    source: Any,
    _source_at: Any,
    _length: Any,
    target: Any,
    _target_at: Any,
    _room: Any,
) -> Any:
    word = types.int64

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.IntType(32)
        operands = [
            _address(context, builder, signature.args[1], args[1], args[2]),
            _address(context, builder, signature.args[4], args[4], args[5]),
            builder.trunc(args[3], number),
            builder.trunc(args[6], number),
        ]
        size = _call_by_address(builder, args[0], number, operands)
        return builder.sext(size, ir.IntType(64))

    return word(word, source, word, word, target, word, word), generate


def _zstd_frames(
    _context: Any,
    _decoder: Any,
    _decoder_context: Any,
    source: Any,
    _source_at: Any,
    _length: Any,
    target: Any,
    _target_at: Any,
    _room: Any,
) -> Any:
    word = types.int64

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        operands = [
            builder.inttoptr(args[1], ir.IntType(8).as_pointer()),
            _address(context, builder, signature.args[5], args[5], args[6]),
            args[7],
            _address(context, builder, signature.args[2], args[2], args[3]),
            args[4],
        ]
        return _call_by_address(builder, args[0], ir.IntType(64), operands)

    return word(word, word, source, word, word, target, word, word), generate


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def _call_by_address(builder: Any, address: Any, result: Any, operands: list[Any]) -> Any:
    kind = ir.FunctionType(result, [operand.type for operand in operands])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), operands)


decode_lz4_block: Callable[[int, Bytes, int, int, Bytes, int, int], int] = intrinsic(_lz4_block)
"""``LZ4_decompress_safe`` by its address: that, source, index, bytes, target, index, room. Gives
the bytes written, or a number below 0."""

decode_zstd_frames: Callable[[int, int, Bytes, int, int, Bytes, int, int], int] = intrinsic(
    _zstd_frames
)
"""``ZSTD_decompressDCtx`` by its address: that, the context's, source, index, bytes, target, index,
room. Gives the bytes written, or a number below 0."""


def _load_intrinsic(
    bits: int, result: Any, *, big_endian: bool
) -> Callable[[Bytes | Int64s, int], int]:
    def load(_context: Any, array: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            source = context.make_array(signature.args[0])(context, builder, args[0])
            pointer = builder.bitcast(
                builder.gep(source.data, [args[1]]), ir.IntType(bits).as_pointer()
            )
            value = builder.load(pointer, align=1)
            return builder.bswap(value) if big_endian else value

        return result(array, types.int64), generate

    compiled: Callable[[Bytes | Int64s, int], int] = intrinsic(load)
    return compiled


# Little-endian as the machine: x86 and ARM, the only ones numba has wheels for besides POWER (le).
load_u64 = _load_intrinsic(64, types.uint64, big_endian=False)
load_u32 = _load_intrinsic(32, types.uint32, big_endian=False)
load_u16 = _load_intrinsic(16, types.uint16, big_endian=False)
load_be32 = _load_intrinsic(32, types.int32, big_endian=True)
load_be64 = _load_intrinsic(64, types.int64, big_endian=True)


def _crc_intrinsic(name: str, state_bits: int, value_bits: int) -> Callable[[int, int], int]:
    """Make a step (checksum, value) of 64-bit numbers from an instruction of narrower ones."""
    word = types.uint64

    def step(_context: Any, crc: Any, data: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
            state, value = ir.IntType(state_bits), ir.IntType(value_bits)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(state, [state, value]), name
            )
            operands = [builder.trunc(args[0], state), builder.trunc(args[1], value)]
            return builder.zext(builder.call(function, operands), ir.IntType(64))

        return word(word, word), generate

    compiled: Callable[[int, int], int] = intrinsic(step)
    return compiled


_X86, _ARM = ("x86_64", "amd64"), ("aarch64", "arm64")


def _host_has(machines: tuple[str, ...], feature: str) -> bool:
    # A cross-compiling numba (NUMBA_CPU_NAME, NUMBA_CPU_FEATURES) may leave out what the host has.
    if config.CPU_NAME or config.CPU_FEATURES:
        return False
    if llvmlite.binding.get_process_triple().split("-")[0] not in machines:
        return False
    return bool(llvmlite.binding.get_host_cpu_features().get(feature))


_CrcStep = Callable[[int, int], int]


def _crc_instructions() -> tuple[_CrcStep, _CrcStep, _CrcStep, _CrcStep] | None:
    if _host_has(_X86, "sse4.2"):
        return (
            _crc_intrinsic("llvm.x86.sse42.crc32.64.64", 64, 64),
            _crc_intrinsic("llvm.x86.sse42.crc32.32.32", 32, 32),
            _crc_intrinsic("llvm.x86.sse42.crc32.32.16", 32, 16),
            _crc_intrinsic("llvm.x86.sse42.crc32.32.8", 32, 8),
        )
    if _host_has(_ARM, "crc"):
        return (
            _crc_intrinsic("llvm.aarch64.crc32cx", 32, 64),
            _crc_intrinsic("llvm.aarch64.crc32cw", 32, 32),
            _crc_intrinsic("llvm.aarch64.crc32ch", 32, 32),
            _crc_intrinsic("llvm.aarch64.crc32cb", 32, 32),
        )
    return None


CRC_INSTRUCTIONS = _crc_instructions()
"""The CPU's own CRC-32C steps over 8, 4, 2 bytes and one, or None where there are none."""


def _multiply_carryless(_context: Any, _first: Any, _second: Any) -> Any:
    word = types.uint64
    product = types.UniTuple(word, 2)  # type: ignore[attr-defined]

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pair, number = ir.VectorType(ir.IntType(64), 2), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(pair, [pair, pair, ir.IntType(8)]),
            "llvm.x86.pclmulqdq",
        )
        zeros = ir.Constant(pair, [0, 0])
        first, second = (builder.insert_element(zeros, word, number(0)) for word in args)
        both = builder.call(function, [first, second, ir.IntType(8)(0)])
        halves = [builder.extract_element(both, number(half)) for half in range(2)]
        return context.make_tuple(builder, product, halves)

    return product(word, word), generate


CARRYLESS_MULTIPLY: Callable[[int, int], tuple[int, int]] | None = (
    intrinsic(_multiply_carryless) if _host_has(_X86, "pclmul") else None
)
"""The CPU's product of polynomials over two elements, its low and high half, or None."""

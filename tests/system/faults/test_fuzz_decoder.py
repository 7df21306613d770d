"""A million mutated inputs: only our errors come out, nothing crashes, hangs or takes memory.

``SEGMENTLOG_SEED`` repeats a run, ``SEGMENTLOG_FUZZ_INPUTS`` sets its length. Inputs are small logs
of all formats and codecs with bytes changed, dropped, doubled and spliced; half of them get their
checksums set right again, so that what is behind them is reached. With atheris there, libFuzzer
adds inputs of its own in another process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import crc32c
import numpy as np
import pytest

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.record.codec.codec import WHOLE_BLOCK_BYTES
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.header_table import find_next_batch, scan_headers
from spark_segmentlog.testing.builder import (
    CODECS,
    RecordSpec,
    control_batch,
    legacy_message_set,
    v2_batch,
)
from tests.support.decoding import room_of
from tests.support.project import PROJECT

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
INPUTS = int(os.environ.get("SEGMENTLOG_FUZZ_INPUTS", "1000000"))
COVERAGE_RUNS = max(1, INPUTS // 10)
GROWTH_LIMIT_BYTES = 200 << 20
LIMIT_BYTES = 1 << 20
INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)


def seeds() -> list[bytes]:
    records = [
        RecordSpec(key=b"key", value=b"value" * 4, headers=[("h", b"x"), ("n", None)]),
        RecordSpec(key=None, value=b""),
        RecordSpec(key=b"", value=None, timestamp_ms=5),
    ]
    plain = [RecordSpec(key=spec.key, value=spec.value) for spec in records]
    found = [v2_batch(records, base_offset=5, codec=codec) for codec in CODECS]
    found += [
        legacy_message_set(magic, plain, base_offset=9, codec=codec)
        for magic in (0, 1)
        for codec in ("none", "gzip", "snappy", "snappy-raw", "lz4", "lz4-legacy-checksum")
    ]
    return [*found, control_batch(0, base_offset=1), v2_batch(records, delete_horizon_ms=7)]


def mutate(chance: random.Random, pool: list[bytes]) -> bytes:
    data = bytearray(chance.choice(pool))
    if chance.random() < 0.3:
        data += chance.choice(pool)
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(data)) if data else 0
        kind = chance.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes([chance.choice(INTERESTING)])
        elif kind == 1 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randint(1, 4))
        elif kind == 4:
            data[at : at + 4] = struct.pack(">i", chance.choice([-1, 0, 2**31 - 1, -(2**31), 61]))
        else:
            other = chance.choice(pool)
            data[at : at + 8] = other[at : at + 8]
    if chance.random() < 0.5:
        mend(data)
    return bytes(data)


def mend(data: bytearray) -> None:
    """Make the length and the checksum of the first entry right."""
    if len(data) < 26:
        return
    if data[16] == 2 and len(data) >= 61:
        data[8:12] = struct.pack(">i", len(data) - 12)
        data[17:21] = struct.pack(">I", crc32c.crc32c(bytes(data[21:])))
    elif data[16] < 2:
        data[8:12] = struct.pack(">i", len(data) - 12)
        data[12:16] = struct.pack(">I", zlib.crc32(bytes(data[16:])))


class Target:
    """Feeds inputs to decoders that live on, as they do in a task."""

    def __init__(self) -> None:
        self.rows = self.errors = 0
        self._decoders = [
            RecordDecoder(
                COLUMNS,
                topic="t",
                partition=0,
                source="fuzz",
                check_crcs=check_crcs,
                validate_first=validate_first,
                max_arrow_rows=7,
                max_arrow_bytes=200,
                max_decompressed_bytes=LIMIT_BYTES,
            )
            for check_crcs, validate_first in ((True, False), (False, False), (False, True))
        ]

    def run(self, data: bytes) -> None:
        array = np.frombuffer(data, np.uint8).copy()
        table = scan_headers(array, 0, len(array), file_position=0)
        find_next_batch(array, min(1, len(array)), len(array), file_position=0, min_offset=3)
        for decoder in self._decoders:
            try:
                for batch in decoder.decode(array, table, file_position=0):
                    self.rows += batch.num_rows
            except SegmentLogError:
                self.errors += 1
            last = decoder.flush()
            if last is not None:
                last.validate(full=True)
                self.rows += last.num_rows


@pytest.mark.parametrize("room_bytes", [WHOLE_BLOCK_BYTES, 64])
def test_mutated_inputs_give_only_our_errors(room_bytes: int) -> None:
    """Half of the inputs meet blocks that are decompressed whole, half meet streams."""
    seed = int(os.environ.get("SEGMENTLOG_SEED", random.randrange(2**32)))
    print(f"SEGMENTLOG_SEED={seed}")
    with room_of(room_bytes):
        _feed_mutated(seed)


def _feed_mutated(seed: int) -> None:
    chance, pool, target = random.Random(seed), seeds(), Target()
    for data in pool:
        target.run(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number in range(max(1, INPUTS // 2)):
        data = mutate(chance, pool)
        try:
            target.run(data)
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {number}: {data.hex()}") from error
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    assert grown < GROWTH_LIMIT_BYTES
    assert target.rows
    assert target.errors


@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="atheris is not installed")
def test_coverage_guided_inputs_give_only_our_errors(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, data in enumerate(seeds()):
        (corpus / str(number)).write_bytes(data)
    seed = os.environ.get("SEGMENTLOG_SEED", "1")
    command = [sys.executable, __file__, f"-runs={COVERAGE_RUNS}", f"-seed={seed}"]
    command += ["-max_len=600", "-rss_limit_mb=2048", "-timeout=60", str(corpus)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def _run_atheris() -> None:
    import atheris

    # The Python side of the decoder is what coverage can see; kernels are seen by what they answer.
    for name in (
        "read.decoder",
        "codec.codecs",
        "plain.legacy",
        "plain.batch",
        "read.header_table",
    ):
        module = sys.modules[f"spark_segmentlog.record.{name}"]
        for attribute, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__module__", "") == module.__name__:
                with contextlib.suppress(TypeError, AttributeError):
                    setattr(module, attribute, atheris.instrument_func(value))
    target = Target()

    def one(data: bytes) -> None:
        mended = bytearray(data)
        mend(mended)
        target.run(data)
        target.run(bytes(mended))

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    _run_atheris()

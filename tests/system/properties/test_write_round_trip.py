"""Whatever rows are written come back as they were: values, order and offsets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog import read_arrow
from spark_segmentlog.log.upkeep.verification import verify
from tests.support.sink import Sink
from tests.support.sink_rows import CODECS, PARTITIONS_COUNT, ROWS, Row, check, to_batch

TASKS = st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=3)
OPTIONS = st.fixed_dictionaries(
    {
        "num.partitions": st.just(PARTITIONS_COUNT),
        "compression.type": st.sampled_from(CODECS),
        "batch.size": st.sampled_from([1, 200, 65536]),
        "segment.bytes": st.sampled_from([2_000, 1 << 30]),
        "index.interval.bytes": st.sampled_from([0, 100, 4096]),
        "segment.ms": st.sampled_from([500, 604_800_000]),
    }
)


@contextmanager
def temporary_sink() -> Iterator[Sink]:
    with pytest.MonkeyPatch.context() as patch:
        folder = Path(tempfile.mkdtemp(prefix="round-trip-"))
        try:
            yield Sink(patch, [folder / "d0", folder / "d1"])
        finally:
            shutil.rmtree(folder)


@settings(max_examples=50)
@given(writes=st.lists(TASKS, min_size=1, max_size=3), options=OPTIONS, two_batches=st.booleans())
def test_rows_come_back_as_they_were(
    writes: list[list[list[Row]]], options: dict[str, Any], two_batches: bool
) -> None:
    with temporary_sink() as sink:
        for tasks in writes:
            sink.save(*[_cut(to_batch(task), two_batches) for task in tasks], **options)
        written = [task for tasks in writes for task in tasks]
        if any(written):
            table = read_arrow(map(str, sink.directories), include_headers=True).read_all()
            check(written, table)
        assert list(verify([str(path) for path in sink.directories], deep=True)) == []
        assert sink.staged() == []


def _cut(batch: pa.RecordBatch, two_batches: bool) -> list[pa.RecordBatch]:
    half = batch.num_rows // 2
    return [batch.slice(0, half), batch.slice(half)] if two_batches else [batch]

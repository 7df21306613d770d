"""Errors travel between processes."""

from __future__ import annotations

import pickle

import pytest

from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    UnknownTopicOrPartitionError,
)


@pytest.mark.parametrize(
    "error",
    [LogPathNotFoundError("x"), EmptyLogDirectoryError("x"), UnknownTopicOrPartitionError("x")],
)
def test_errors_pickle(error: Exception) -> None:
    assert type(pickle.loads(pickle.dumps(error))) is type(error)

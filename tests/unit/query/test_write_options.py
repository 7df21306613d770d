"""Options of writes: their values, defaults, and the names that producers have for them."""

from __future__ import annotations

import pickle

import pytest

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.query.options import parse_write_options


def test_write_options_and_their_producer_names() -> None:
    options = parse_write_options(
        {
            "path": "/logs",
            "topic": "t",
            "kafka.compression.type": "ZSTD",
            "compression.zstd.level": "3",
            "kafka.batch.size": "1000",
            "kafka.max.request.size": "2000",
            "kafka.bootstrap.servers": "x",
            "cleanup.policy": "compact, delete",
            "retention.ms": "-1",
        }
    )
    assert (options.compression_type, options.compression_level) == ("zstd", 3)
    assert (options.batch_size, options.max_message_bytes) == (1000, 2000)
    assert options.cleanup_policy == ("compact", "delete")
    assert options.retention_ms == -1
    assert options.retention_bytes is None
    assert options.ignored == ("kafka.bootstrap.servers",)
    assert options.segment_bytes == 1 << 30
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafka.key.serializer": "x"}, "is not supported"),
        ({"topic": "no/slash"}, "legal are 1 to 249"),
        ({"compression.type": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"compression.type": "lz4", "kafka.compression.type": "gzip"}, "differ"),
        ({"cleanup.policy": "shred"}, "delete, compact"),
        ({"segment.bytes": "0"}, "14 to 2147483647"),
        ({"txnAppId": "a"}, "together or not at all"),
        ({"txnVersion": "1"}, "together or not at all"),
    ],
)
def test_bad_write_options(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionValueError, match=text):
        parse_write_options({"path": "/logs", **options})

"""Our choice of partition against librdkafka's."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark_segmentlog.record.write.partitioner import NullKeyBalance, assign_partitions
from tests.support.broker import Broker

pytestmark = pytest.mark.interop

PARTITIONS_COUNT = 7
KEYS_COUNT = 10_000


def _keys(seed: int) -> list[bytes]:
    """Distinct keys: the empty one, short binary ones, text that is not ASCII, long ones."""
    draw = random.Random(seed)
    keys = {b"", "Gru\u00dfe".encode(), "\u4e2d\u6587\U0001f680".encode()}
    while len(keys) < KEYS_COUNT:
        kind = draw.randrange(4)
        if kind == 0:
            keys.add(draw.randbytes(draw.randrange(1, 12)))
        elif kind == 1:
            letters = draw.choices("a\u00e4\u0434\u4e2d\U0001f600z", k=draw.randrange(1, 20))
            keys.add("".join(letters).encode())
        elif kind == 2:
            keys.add(str(draw.randrange(10**9)).encode())
        else:
            keys.add(draw.randbytes(draw.randrange(200, 2000)))
    return sorted(keys)


@pytest.mark.parametrize("seed", [20250211])
def test_keys_go_where_librdkafka_murmur2_random_sends_them(broker: Broker, seed: int) -> None:
    print(f"seed {seed}")
    keys = _keys(seed)
    broker.create_topic("keys", partitions=PARTITIONS_COUNT)
    producer = broker.producer(partitioner="murmur2_random")
    for key in keys:
        producer.produce("keys", key=key, value=b"")
        producer.poll(0)
    producer.flush()

    theirs = {record.key: record.partition for record in broker.consume(["keys"])}

    balance = NullKeyBalance(PARTITIONS_COUNT)
    ours = assign_partitions(
        pa.array(keys, pa.binary()), None, PARTITIONS_COUNT, balance, row_count=len(keys)
    )
    assert len(theirs) == KEYS_COUNT
    assert dict(zip(keys, ours.tolist(), strict=True)) == theirs

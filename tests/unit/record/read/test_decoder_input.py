"""What a decoder works on at a time."""

from __future__ import annotations

import random

from spark_segmentlog.testing.builder import RecordSpec, legacy_message_set, v2_batch
from tests.support.decoding import CODECS, read


def test_large_and_small_entries_of_all_kinds_in_random_order() -> None:
    chance = random.Random(11)
    data, expected = [], []
    offset = 0
    for _ in range(300):
        count = chance.choice([1, 1, 2, 50])
        records = [
            RecordSpec(key=b"k", value=chance.randbytes(chance.choice([0, 10, 3000])))
            for _ in range(count)
        ]
        magic = chance.choice([0, 1, 2, 2, 2])
        codec = chance.choice(CODECS[: 4 if magic == 1 else 3 if magic == 0 else 5])
        if magic == 2:
            data.append(v2_batch(records, base_offset=offset, codec=codec))
        else:
            data.append(legacy_message_set(magic, records, base_offset=offset, codec=codec))
        expected += [(offset + place, record.value) for place, record in enumerate(records)]
        offset += count
    rows = read(b"".join(data), max_arrow_rows=100)
    assert [(row[0], row[4]) for row in rows] == expected

"""The latest offset of each key."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.record.kernels import filter as kernels
from tests.support.splitting import hashed

SECRET = (
    int.from_bytes(bytes(range(8)), "little"),
    int.from_bytes(bytes(range(8, 16)), "little"),
)


@settings(max_examples=100, deadline=None)
@given(
    puts=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=120),
    slots_bits=st.integers(1, 6),
)
def test_the_table_holds_the_latest_offset_of_a_key_and_says_when_it_is_full(
    puts: list[tuple[int, bool]], slots_bits: int
) -> None:
    table = np.zeros(kernels.ENTRY_WORDS << slots_bits, np.uint64)
    max_keys = (1 << slots_bits) * 3 // 4
    keys = [b"%d" % key for key, _ in puts]
    low, high = hashed(keys or [b""], SECRET)
    wanted = np.array([is_wanted for _, is_wanted in puts], np.bool_)
    offsets = np.arange(len(puts), dtype=np.int64)
    count, done = kernels.put_offsets(
        table, low[: len(puts)], high[: len(puts)], offsets, wanted, 0, max_keys
    )
    model: dict[bytes, int] = {}
    expected_done = len(puts)
    for row, (key, (_, is_wanted)) in enumerate(zip(keys, puts, strict=True)):
        if is_wanted and key not in model and len(model) == max_keys:
            expected_done = row
            break
        if is_wanted:
            model[key] = row
    assert (count, done) == (len(model), expected_done)
    found = np.empty(len(low), np.int64)
    kernels.find_offsets(table, low, high, found)
    assert found[: len(keys)].tolist() == [model.get(key, -1) for key in keys]

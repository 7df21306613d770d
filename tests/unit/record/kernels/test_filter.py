"""The hash of keys."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.splitting import hashed


def plain_siphash(data: bytes, secret: tuple[int, int]) -> bytes:
    """SipHash-2-4, 128 bits, as its paper writes it."""
    mask = 2**64 - 1
    k0, k1 = secret
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & mask, (v[0] + v[3]) & mask
            v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF]), "little"))
    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return low.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


SECRET = (
    int.from_bytes(bytes(range(8)), "little"),
    int.from_bytes(bytes(range(8, 16)), "little"),
)


def test_the_hash_is_that_of_the_published_vectors() -> None:
    low, high = hashed([b"", b"\0"], SECRET)
    assert low.tobytes()[:8] + high.tobytes()[:8] == bytes.fromhex(
        "a3817f04ba25a8e66df67214c7550293"
    )
    assert low.tobytes()[8:] + high.tobytes()[8:] == bytes.fromhex(
        "da87c1d86b99af44347659119b22fc45"
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20))
def test_the_hash_equals_its_plain_twin(keys: list[bytes]) -> None:
    low, high = hashed(keys, SECRET)
    for index, key in enumerate(keys):
        assert low[index].tobytes() + high[index].tobytes() == plain_siphash(key, SECRET)

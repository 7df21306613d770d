"""Keys of encrypted segments: AES-256/GCM data keys, encrypted for an RSA key pair each.

A data key is encrypted by RSA with OAEP, SHA3-512 for the label and for MGF1, the label empty; that
padding is not among those of ``cryptography``, which reads the PEM files and decrypts the chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.tier.manifest import IV_BYTES, Encryption
from spark_segmentlog.log.tier.remote_segment import KeyFiles

DATA_KEY_BYTES: Final = 32
MAX_PEM_BYTES: Final = 1 << 20
_HASH: Final = hashlib.sha3_512
_HASH_BYTES: Final = _HASH().digest_size
_EMPTY_LABEL: Final = _HASH(b"").digest()

Decrypt = Callable[[bytes], bytes]


class DecryptionError(ValueError):
    """Bytes whose tag is not theirs; turned into an error with object and chunk above."""


def open_cipher(encryption: Encryption, keys: KeyFiles, path: str) -> Decrypt:
    """Make what decrypts the chunks and indexes of a segment.

    Raises
    ------
    RemoteStorageError
        The private key is missing, is another one, or ``cryptography`` is not installed.
    """
    key_path = dict(keys).get(encryption.key_id)
    if key_path is None:
        given = ", ".join(key_id for key_id, _ in keys) or "none"
        raise RemoteStorageError(
            f"manifest {path}: encrypted for key pair {encryption.key_id!r}, whose private key is "
            f"not given; remoteStorage.keys, or --remote-key, names {given}"
        )
    try:
        data_key = _data_key(key_path, encryption.encrypted_key)
    except DecryptionError as error:
        raise RemoteStorageError(
            f"manifest {path}: its data key was not encrypted for {key_path}, given for key pair "
            f"{encryption.key_id!r}: {error}"
        ) from error
    return _aes_gcm(data_key, encryption.aad)


def _aes_gcm(data_key: bytes, aad: bytes) -> Decrypt:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(data_key)

    def decrypt(stored: bytes) -> bytes:
        try:
            plain: bytes = cipher.decrypt(stored[:IV_BYTES], stored[IV_BYTES:], aad)
        except (InvalidTag, ValueError) as error:
            raise DecryptionError(
                "its tag is not that of its bytes: changed, cut, or of another key"
            ) from error
        return plain

    return decrypt


@lru_cache(maxsize=4096)
def _data_key(key_path: str, encrypted_key: bytes) -> bytes:
    key = _private_key(key_path)
    modulus = key.p * key.q
    size = (modulus.bit_length() + 7) // 8
    number = int.from_bytes(encrypted_key, "big")
    if len(encrypted_key) != size or number >= modulus:
        raise DecryptionError(f"it has {len(encrypted_key)} bytes, the key pair {size}")
    data_key = _without_padding(_decrypted(number, key).to_bytes(size, "big"))
    if len(data_key) != DATA_KEY_BYTES:
        raise DecryptionError(f"the data key has {len(data_key)} bytes, not {DATA_KEY_BYTES}")
    return data_key


def _decrypted(number: int, key: Any) -> int:
    """Apply a private key by the remainder theorem (RFC 8017, 5.1.2)."""
    first, second = pow(number, key.dmp1, key.p), pow(number, key.dmq1, key.q)
    return int(second + key.q * ((first - second) * key.iqmp % key.p))


def _without_padding(message: bytes) -> bytes:
    """Take OAEP's padding away (RFC 8017, 7.1.2)."""
    if len(message) < 2 * _HASH_BYTES + 2:
        raise DecryptionError("the key pair is too small for the padding")
    masked_seed, masked = message[1 : 1 + _HASH_BYTES], message[1 + _HASH_BYTES :]
    seed = _xor(masked_seed, _mask(masked, _HASH_BYTES))
    block = _xor(masked, _mask(seed, len(masked)))
    padded = block[_HASH_BYTES:].lstrip(b"\0")
    if message[0] != 0 or block[:_HASH_BYTES] != _EMPTY_LABEL or padded[:1] != b"\1":
        raise DecryptionError("the padding is wrong")
    return padded[1:]


def _mask(seed: bytes, size: int) -> bytes:
    blocks = -(-size // _HASH_BYTES)
    return b"".join(_HASH(seed + i.to_bytes(4, "big")).digest() for i in range(blocks))[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


@lru_cache(maxsize=64)
def _private_key(path: str) -> Any:
    """Read the numbers of an RSA key."""
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise RemoteStorageError(
            "encrypted segments need cryptography: pip install 'spark-segmentlog[tiered]'"
        ) from error
    storage, inner = resolve_storage(path)
    data = storage.read_start(inner, MAX_PEM_BYTES)
    if data is None:
        raise RemoteStorageError(f"private key {path} is not there")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise RemoteStorageError(f"{path} is no private RSA key in PEM: {error}") from error
    if not isinstance(key, RSAPrivateKey):
        raise RemoteStorageError(f"{path} is a private key, but none of RSA")
    return key.private_numbers()

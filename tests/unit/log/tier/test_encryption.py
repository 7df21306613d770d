"""Keys of encrypted segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import RemoteStorageError
from tests.support.chunks import read
from tests.support.store_data import Store


@pytest.mark.parametrize("segment", ["aiven-zstd-aes"], indirect=True)
def test_keys(segment: tuple[Store, str], tmp_path: Path) -> None:
    store, path = segment
    name = rf"manifest {path}\.rsm-manifest: "
    with pytest.raises(RemoteStorageError, match=f"{name}.*'test-key-1'.*names none"):
        read(store, path, ())
    wrong = (("test-key-1", store.keys["test-key-2"]),)
    with pytest.raises(RemoteStorageError, match=f"{name}its data key was not encrypted for"):
        read(store, path, wrong)
    missing = (("test-key-1", str(tmp_path / "none.pem")),)
    with pytest.raises(RemoteStorageError, match=r"private key .*none\.pem is not there"):
        read(store, path, missing)
    (tmp_path / "odd.pem").write_text("odd")
    with pytest.raises(RemoteStorageError, match=r"odd\.pem is no private RSA key"):
        read(store, path, (("test-key-1", str(tmp_path / "odd.pem")),))

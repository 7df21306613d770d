"""What is shown of how a storage is reached."""

from __future__ import annotations

import pickle

from spark_segmentlog.log.io.storage_options import StorageOptions


def test_secrets_are_in_no_repr_and_travel() -> None:
    options = StorageOptions(
        endpoint="http://minio:9000",
        access_key="HIDDEN-1",
        secret_key="HIDDEN-2",
        session_token="HIDDEN-3",
        settings=(("token", "HIDDEN-4"),),
    )
    assert "HIDDEN" not in repr(options)
    assert "http://minio:9000" in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options

"""What is shown of how a storage is reached."""

from __future__ import annotations

import pickle

import pytest

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.io.storage_options import StorageOptions
from spark_segmentlog.query.options import parse_read_options


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


def test_options_of_a_read_say_how_a_storage_is_reached() -> None:
    given = {
        "storage.endpoint": "http://minio:9000",
        "storage.region": "eu-central-1",
        "storage.accessKey": "HIDDEN-1",
        "storage.secretKey": "HIDDEN-2",
        "storage.sessionToken": "HIDDEN-3",
        "storage.anonymous": "false",
        "storage.settings": '{"token":"HIDDEN-4"}',
    }
    options = parse_read_options({"path": "s3://bucket/logs", **given})
    assert options.remote.storage == StorageOptions(
        endpoint="http://minio:9000",
        region="eu-central-1",
        access_key="HIDDEN-1",
        secret_key="HIDDEN-2",
        session_token="HIDDEN-3",
        settings=(("token", "HIDDEN-4"),),
    )
    assert "HIDDEN" not in repr(options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"storage.settings": '{"token":"HIDDEN"'},
        {"storage.settings": '["HIDDEN"]'},
        {"remoteStorage": '["s3://HIDDEN:HIDDEN@bucket"'},
        {"paths": '["s3://HIDDEN:HIDDEN@bucket"'},
    ],
)
def test_errors_do_not_show_secrets(wrong: dict[str, str]) -> None:
    with pytest.raises(OptionValueError, match=next(iter(wrong))) as caught:
        parse_read_options({"path": "/logs", **wrong})
    assert "HIDDEN" not in str(caught.value)

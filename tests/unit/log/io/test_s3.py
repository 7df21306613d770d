"""URIs of buckets: what they, options and the environment say, and which library reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import S3FileSystem

from spark_segmentlog.log.io.object_store import ObjectStorage
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.io.s3 import open_bucket
from spark_segmentlog.log.io.storage_options import NO_STORAGE_OPTIONS, StorageOptions

NONE = NO_STORAGE_OPTIONS
GIVEN = StorageOptions(
    endpoint="http://127.0.0.1:9000",
    region="eu-north-1",
    access_key="AKIDGIVEN",
    secret_key="SECRET-GIVEN",
    session_token="TOKEN-GIVEN",
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "PROFILE", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def config(uri: str, options: StorageOptions = NONE) -> tuple[dict[str, Any], str]:
    found, path = open_bucket(uri, options)
    assert isinstance(found, ObjectStorage)
    return dict(found.store.config), path


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3"])
def test_options_go_before_the_uri(scheme: str) -> None:
    found, path = config(f"{scheme}://bucket/a%20b/c?region=us-east-1", GIVEN)
    assert path == "bucket/a b/c"
    assert found["endpoint"] == "http://127.0.0.1:9000"
    assert found["region"] == "eu-north-1"
    assert found["access_key_id"] == "AKIDGIVEN"
    assert found["secret_access_key"] == "SECRET-GIVEN"
    assert found["session_token"] == "TOKEN-GIVEN"


def test_the_uri_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://other:1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    place = "endpoint_override=127.0.0.1:9000&scheme=http&region=us-west-2"
    found, _ = config(f"s3://AKIDURI:a%2Fb@bucket/x?{place}")
    assert found["endpoint"] == "http://127.0.0.1:9000"
    assert found["region"] == "us-west-2"
    assert (found["access_key_id"], found["secret_access_key"]) == ("AKIDURI", "a/b")


def test_the_environment_says_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    found, path = config("s3a://bucket/x")
    assert (found["endpoint"], found["region"]) == ("http://127.0.0.1:9000", "eu-west-1")
    # Read where a task runs, never sent there.
    assert "secret_access_key" not in found
    assert path == "bucket/x"


def test_no_secret_is_in_a_repr() -> None:
    storage, _ = resolve_storage("s3://bucket/x", GIVEN)
    for shown in (repr(storage), repr(open_bucket("s3://bucket/x", GIVEN))):
        assert "GIVEN" not in shown


def test_profiles_are_read_by_pyarrow(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\n")
    place = "s3://bucket/x?region=us-east-1&endpoint_override=127.0.0.1:9000&scheme=http"
    assert isinstance(open_bucket(place, NONE)[0], S3FileSystem)
    assert isinstance(open_bucket(place, GIVEN)[0], ObjectStorage)


def test_pyarrow_reads_where_obstore_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    found, path = open_bucket("s3a://bucket/x", GIVEN)
    assert isinstance(found, S3FileSystem)
    assert path == "bucket/x"
    assert found.region == "eu-north-1"

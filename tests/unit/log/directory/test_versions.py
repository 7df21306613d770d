"""The file of committed versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.versions import (
    VERSIONS_FILE_NAME,
    ApplicationVersion,
    Versions,
    new_directory_id,
    read_versions,
)


def test_versions_read_back_as_they_were(tmp_path: Path) -> None:
    assert read_versions(str(tmp_path)) == Versions()
    versions = Versions(
        counter=7,
        applications={"app": ApplicationVersion(version=3, write_id="w")},
        directory_id=new_directory_id(),
    )
    (tmp_path / VERSIONS_FILE_NAME).write_bytes(versions.to_bytes())
    assert read_versions(str(tmp_path)) == versions


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"format":2}', b'{"format":1}', b"\xff", b'{"format":1,"a":null}']
)
def test_a_versions_file_that_is_not_ours_is_an_error(data: bytes) -> None:
    with pytest.raises(RecoveryError, match="file here"):
        Versions.from_bytes(data, source="here")

"""Options that tell where a store is."""

from __future__ import annotations

from typing import Any

import pytest

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.query.options import keywords_to_options, parse_read_options


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"remote_storage": "[1]"}, "JSON list of paths"),
        ({"remote_storage_layout": "odd"}, "legal are local, aiven"),
        ({"remote_storage_keys": "[]"}, "id to private key file"),
        ({"remote_storage_topic_ids": "short"}, "22 characters"),
    ],
)
def test_values_of_the_options(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionValueError, match=reason):
        parse_read_options(keywords_to_options("/log", options))

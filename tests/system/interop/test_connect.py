"""By Spark Connect all does what it does in a classic session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.connect_client import connect_python
from tests.support.other_user import USER, WHO, OtherUser, other_user
from tests.support.spark_servers import connect_server
from tests.support.whole_round import assert_whole, run_whole_round, write_source

pytestmark = pytest.mark.interop


@pytest.fixture(params=[WHO])
def user() -> Iterator[OtherUser]:
    with other_user() as other:
        yield other


def test_a_client_of_spark_connect_gets_the_same_rows(user: OtherUser) -> None:
    source = user.folder / "source"
    write_source(source)
    with connect_server(user) as url:
        saw = run_whole_round(
            {"spark.remote": url, "spark.sql.python.filterPushdown.enabled": "true"},
            source,
            user.make_folder("job"),
            python=connect_python(),
        )
    assert_whole(saw)
    assert {task["user"] for task in saw["tasks"]} == {USER}

"""An entry of the tables of options."""

from __future__ import annotations

import pytest

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.query.option import READS, Option, snake_case
from spark_segmentlog.query.option_parsers import integer
from spark_segmentlog.query.options import OPTIONS


def test_every_option_is_of_some_use_and_has_one_line() -> None:
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    for option in OPTIONS:
        assert option.scopes
        assert option.meaning
        assert "\n" not in option.meaning
        assert "|" not in option.meaning
        assert set(option.scopes).isdisjoint(option.ignored_in)


def test_a_bad_value_is_told_with_the_option_and_the_legal_ones() -> None:
    option = Option("aNumber.ofSome", integer(1), READS, "a number")
    assert option.value(" 7 ") == 7
    with pytest.raises(OptionValueError, match=r"^option 'aNumber.ofSome' is '0': "):
        option.value("0")


@pytest.mark.parametrize(
    ("name", "keyword"),
    [
        ("minPartitions", "min_partitions"),
        ("kafka.check.crcs", "kafka_check_crcs"),
        ("remoteStorage.topicIds", "remote_storage_topic_ids"),
        ("path", "path"),
    ],
)
def test_names_are_keywords_in_snake_case(name: str, keyword: str) -> None:
    assert snake_case(name) == keyword

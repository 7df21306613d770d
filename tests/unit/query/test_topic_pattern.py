from __future__ import annotations

import pytest

from spark_segmentlog.query.topic_pattern import compile_java_pattern


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("a.*", "abc"),
        (r"\Qa.b\E.*", "a.bc"),
        (r"[a-z&&[^b]]+", "acd"),
        (r"[a-z&&[def]&&[^e]]+", "dfd"),
        (r"[a-c[x-z]]+", "axz"),
        (r"\p{Alpha}+", "abc"),
        (r"\p{IsAlphabetic}\p{L}\pL\p{javaLowerCase}", "abcd"),
        (r"\P{Upper}+", "a-1"),
        (r"(?<name>a+)-\k<name>", "aa-aa"),
        (r"a(?<=a)b", "ab"),
        (r"a(?<!b)b", "ab"),
        (r"(?i)ABC", "abc"),
        (r"(?i:ABC)-x", "abc-x"),
        (r"[\w.-]+", "a.b-c_1"),
        (r"[^\d]+", "ab"),
        (r"a*+b", "aab"),
        (r"[]a]+", "a]"),
        (r"x{2,3}\z", "xx"),
        (r"[-a]+", "-a"),
        (r"[a-]+", "-a"),
        ("a|b", "b"),
        (r"(a)(b)\1", "aba"),
        (r"[\Q.-\E]+", "-."),
        (r"\x61\u0062\0143\cA?\x{64}", "abcd"),
        (r"a\.b\-c", "a.b-c"),
    ],
)
def test_java_pattern_matches_whole_name(pattern: str, topic: str) -> None:
    assert compile_java_pattern(pattern).fullmatch(topic)


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("a.*", "xabc"),
        ("audit", "audit.events"),
        (r"\Qa.b\E.*", "axbc"),
        (r"[a-z&&[^b]]+", "abd"),
        (r"(?<name>a+)-\k<name>", "aa-a"),
        (r"(?i)[^A]bc", "abc"),
        (r"[a&&b]", "a"),
    ],
)
def test_java_pattern_does_not_match(pattern: str, topic: str) -> None:
    assert not compile_java_pattern(pattern).fullmatch(topic)


@pytest.mark.parametrize(
    "pattern",
    [
        "[a",
        "(a",
        "*a",
        "(?P<x>a)",
        "(?(1)a)",
        "(?#x)",
        r"\y",
        "a\\",
        r"\p{Klingon}",
        "[z-a]",
        r"\k<x",
    ],
)
def test_what_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compile_java_pattern(pattern)

"""Java regular expressions for ``subscribePattern``, as Python ones.

Topic names hold ``[a-zA-Z0-9._-]`` only, so a Java character class (nested, intersected, POSIX or
Unicode) is the same as the set of ASCII characters it holds: classes are evaluated, and written
out. The rest of the two languages differs in a few escapes and in the names of groups.
"""

from __future__ import annotations

import re
import string

_ASCII = frozenset(map(chr, range(128)))
_LETTERS = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
_SPACES = frozenset(" \t\n\x0b\f\r")
_ESCAPED_CLASSES = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | {"_"},
    "s": _SPACES,
    "h": frozenset(" \t"),
    "v": frozenset("\n\x0b\f\r"),
}
_PUNCTUATION = frozenset(string.punctuation)
_NAMED_CLASSES = {
    "lower": frozenset(string.ascii_lowercase),
    "upper": frozenset(string.ascii_uppercase),
    "alpha": _LETTERS,
    "digit": _DIGITS,
    "alnum": _LETTERS | _DIGITS,
    "punct": _PUNCTUATION,
    "graph": _LETTERS | _DIGITS | _PUNCTUATION,
    "print": _LETTERS | _DIGITS | _PUNCTUATION | {" "},
    "blank": frozenset(" \t"),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "xdigit": frozenset(string.hexdigits),
    "space": _SPACES,
    "ascii": _ASCII,
    "l": _LETTERS,
    "lu": frozenset(string.ascii_uppercase),
    "ll": frozenset(string.ascii_lowercase),
    "n": _DIGITS,
    "nd": _DIGITS,
    "p": frozenset("!\"#%&'()*,-./:;?@[\\]_{}"),
    "pd": frozenset("-"),
    "pc": frozenset("_"),
    "po": frozenset("!\"#%&'*,./:;?@\\"),
    "isalphabetic": _LETTERS,
    "isletter": _LETTERS,
    "isdigit": _DIGITS,
    "islowercase": frozenset(string.ascii_lowercase),
    "isuppercase": frozenset(string.ascii_uppercase),
    "islatin": _LETTERS,
    "javalowercase": frozenset(string.ascii_lowercase),
    "javauppercase": frozenset(string.ascii_uppercase),
}
_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)", "G": r"\A"}


def compile_java_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a Java regular expression for whole ASCII names.

    Raises
    ------
    ValueError
        Where Java refuses the pattern too, or where it uses what topic names do not need.
    """
    try:
        return re.compile(_Translator(pattern).translate(), re.ASCII)
    except re.error as error:
        raise ValueError(str(error)) from error


class _Translator:
    """One pass over a Java pattern, left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0

    def translate(self) -> str:
        pieces = []
        while self._position < len(self._pattern):
            pieces.append(self._piece())
        return "".join(pieces)

    def _piece(self) -> str:
        if self._accept(r"\Q"):
            return re.escape(self._quoted())
        if self._accept("\\"):
            return self._escape()
        if self._accept("["):
            negated, members = self._class()
            return _written(members, negated=negated)
        if self._accept("(?<"):
            return "(?<" if self._ahead("=", "!") else "(?P<"
        if self._ahead("(?P", "(?(", "(?#"):
            raise ValueError(f"Java has no group that starts with {self._ahead_text(3)!r}")
        return self._next()

    def _escape(self) -> str:
        if self._ahead(*_ANCHORS):
            return _ANCHORS[self._next()]
        if self._accept("k<"):
            return f"(?P={self._until('>')})"
        if self._pattern[self._position : self._position + 1].isdigit() and not self._ahead("0"):
            return "\\" + self._next()
        if self._accept("R"):
            return r"(?:\r\n|[\n\x0b\f\r])"
        return _written(self._escaped_members())

    def _escaped_members(self) -> frozenset[str]:
        """Characters that the escape after a backslash stands for, in a class or out of one."""
        char = self._next()
        if char.lower() in _ESCAPED_CLASSES:
            members = _ESCAPED_CLASSES[char.lower()]
            return members if char.islower() else _ASCII - members
        if char in "pP":
            members = self._named_members()
            return members if char == "p" else _ASCII - members
        return frozenset(self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        if char == "x":
            return chr(self._hexadecimal(2))
        if char == "u":
            return chr(self._hexadecimal(4))
        if char == "0":
            return chr(int(self._match(r"[0-3]?[0-7]{1,2}", "an octal number"), 8))
        if char == "c":
            return chr(ord(self._next()) ^ 64)
        if char.isalnum():
            raise ValueError(f"no escape \\{char}")
        return char

    def _hexadecimal(self, digits: int) -> int:
        if self._accept("{"):
            return int(self._until("}"), 16)
        return int(self._match(rf"[0-9a-fA-F]{{{digits}}}", f"{digits} hexadecimal digits"), 16)

    def _named_members(self) -> frozenset[str]:
        name = self._until("}") if self._accept("{") else self._next()
        key = re.sub(
            r"^(?:is|in|script=|general_category=|gc=|sc=)(?=l|n|p|latin)", "", name.lower()
        )
        members = _NAMED_CLASSES.get(name.lower(), _NAMED_CLASSES.get(key))
        if members is None:
            raise ValueError(f"no character class \\p{{{name}}}")
        return members

    def _class(self) -> tuple[bool, frozenset[str]]:
        """Read the class after ``[``: whether it is negated, and the characters it names."""
        negated = self._accept("^")
        members: frozenset[str] = frozenset()
        operand: set[str] = set()
        intersected = False
        first = True
        while first or not self._accept("]"):
            first = False
            if self._accept("&&"):
                members = (members & operand) if intersected else frozenset(operand)
                operand, intersected = set(), True
            else:
                operand |= self._class_item()
        return negated, (members & operand) if intersected else frozenset(operand)

    def _class_item(self) -> frozenset[str]:
        if self._accept("["):
            negated, members = self._class()
            return _ASCII - members if negated else members
        if self._accept(r"\Q"):
            return frozenset(self._quoted())
        members = self._class_member()
        if len(members) != 1 or not self._ahead("-") or self._ahead("-]", "-[", "-&&"):
            return members
        self._accept("-")
        low, high = ord(next(iter(members))), ord(next(iter(self._class_member())))
        if high < low:
            raise ValueError(f"range {chr(low)}-{chr(high)} runs backwards")
        return frozenset(map(chr, range(low, high + 1)))

    def _class_member(self) -> frozenset[str]:
        return self._escaped_members() if self._accept("\\") else frozenset(self._next())

    def _quoted(self) -> str:
        end = self._pattern.find(r"\E", self._position)
        text = self._pattern[self._position : len(self._pattern) if end < 0 else end]
        self._position += len(text) + (2 if end >= 0 else 0)
        return text

    def _next(self) -> str:
        if self._position >= len(self._pattern):
            raise ValueError("the pattern ends inside of a class or an escape")
        self._position += 1
        return self._pattern[self._position - 1]

    def _accept(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._position)
        self._position += len(text) if found else 0
        return found

    def _ahead(self, *texts: str) -> bool:
        return self._pattern.startswith(texts, self._position)

    def _ahead_text(self, length: int) -> str:
        return self._pattern[self._position : self._position + length]

    def _until(self, end: str) -> str:
        stop = self._pattern.find(end, self._position)
        if stop < 0:
            raise ValueError(f"no {end!r} after {self._ahead_text(10)!r}")
        text = self._pattern[self._position : stop]
        self._position = stop + len(end)
        return text

    def _match(self, pattern: str, wanted: str) -> str:
        match = re.compile(pattern).match(self._pattern, self._position)
        if match is None:
            raise ValueError(f"wanted {wanted}, found {self._ahead_text(4)!r}")
        self._position = match.end()
        return match.group()


def _written(members: frozenset[str], *, negated: bool = False) -> str:
    if not members:
        return r"[\x00-\U0010ffff]" if negated else r"(?!)"
    if len(members) == 1 and not negated:
        return re.escape(next(iter(members)))
    return f"[{'^' if negated else ''}{''.join(re.escape(char) for char in sorted(members))}]"

"""The order of Maven's versions, as its class ComparableVersion has it."""

from __future__ import annotations

import re
from functools import total_ordering
from itertools import zip_longest
from typing import Any, TypeAlias

_Item: TypeAlias = "int | str | list[Any]"
_QUALIFIERS = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_RELEASE = str(_QUALIFIERS.index(""))
_ALIASES = {"ga": "", "final": "", "release": "", "cr": "rc"}
_BEFORE_DIGITS = {"a": "alpha", "b": "beta", "m": "milestone"}
_TOKEN = re.compile(r"\d+|[^\d.-]+|[.-]")


@total_ordering
class Version:
    """A version that compares as in Maven: 1.0-rc1 < 1.0 = 1.0.Final < 1.0-jre < 1.0.1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._items = _parse(text.lower())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and _compare(self._items, other._items) == 0

    def __lt__(self, other: Version) -> bool:
        return _compare(self._items, other._items) < 0

    def __hash__(self) -> int:
        return hash(str(self._items))

    def __repr__(self) -> str:
        return f"Version({self.text!r})"


def _parse(text: str) -> list[_Item]:
    """Numbers and words; a list begins at a hyphen, and where digits and letters meet."""
    outer: list[_Item] = []
    nested = [outer]
    before = "."  # the kind of the token before: a separator, a digit or a letter
    tokens = _TOKEN.findall(text)
    for token, after in zip_longest(tokens, tokens[1:], fillvalue=""):
        kind = token if token in ".-" else "digit" if token.isdigit() else "letter"
        if kind in ".-":
            if before in ".-":
                nested[-1].append(0)
            if kind == "-":
                _open(nested)
        else:
            word_ends_it = kind == "letter" and (not after or after.isdigit())
            if before not in ".-" or (word_ends_it and nested[-1]):
                _open(nested)
            nested[-1].append(int(token) if kind == "digit" else _word(token, followed=after.isdigit()))
        before = kind
    for items in reversed(nested):
        _trim(items)
    return outer


def _open(nested: list[list[_Item]]) -> None:
    inner: list[_Item] = []
    nested[-1].append(inner)
    nested.append(inner)


def _word(word: str, followed: bool) -> str:
    if followed and word in _BEFORE_DIGITS:
        return _BEFORE_DIGITS[word]
    return _ALIASES.get(word, word)


def _trim(items: list[_Item]) -> None:
    """Drop what means nothing at the end, before each list too: 1.0.0-x is 1-x."""
    for at in reversed(range(len(items))):
        if items[at] in (0, "", []):
            del items[at]
        elif not isinstance(items[at], list):
            return


def _compare(one: _Item | None, other: _Item | None) -> int:
    """Less than, equal to or greater than 0. None stands for an item that a version does not have."""
    if other is None:
        return 0 if one is None else _to_nothing(one)
    if one is None:
        return -_to_nothing(other)
    if type(one) is not type(other):
        kinds = (str, list, int)
        return _sign(kinds.index(type(one)), kinds.index(type(other)))
    if isinstance(one, list) and isinstance(other, list):
        return next((found for pair in zip_longest(one, other) if (found := _compare(*pair))), 0)
    return _sign(_rank(one), _rank(other)) if isinstance(one, str) else _sign(one, other)


def _to_nothing(item: Any) -> int:
    if isinstance(item, list):
        return next((found for one in item if (found := _compare(one, None))), 0)
    return _sign(_rank(item), _RELEASE) if isinstance(item, str) else _sign(item, 0)


def _rank(word: Any) -> str:
    return str(_QUALIFIERS.index(word)) if word in _QUALIFIERS else f"{len(_QUALIFIERS)}-{word}"


def _sign(one: Any, other: Any) -> int:
    return (one > other) - (one < other)

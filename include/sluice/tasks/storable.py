"""Which texts PostgreSQL can store: it refuses a NUL and text that is not Unicode."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.tasks.problem import Problem

#: Half a surrogate pair, which may come from JSON or the command line.
HALF = re.compile("[\ud800-\udfff]")


def why_not(text: str) -> str | None:
    """Why the text cannot be stored, and what to do; None if it can."""
    if "\0" in text:
        return f"{text!r} holds a NUL, which cannot be stored: leave it out"
    if HALF.search(text):
        return f"{text!r} holds half a surrogate pair, which is no text: leave it out"
    return None


def unstorable(document: object, pointer: str = "") -> Iterator[Problem]:
    """A problem for each text in a document (lists, mappings, values) that cannot be stored."""
    if isinstance(document, str):
        if reason := why_not(document):
            yield Problem(pointer, reason)
    elif isinstance(document, dict):
        for key, value in document.items():
            yield from unstorable(value, f"{pointer}/{key}")
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from unstorable(value, f"{pointer}/{number}")

"""Texts that PostgreSQL holds: it refuses a NUL, and what is no Unicode."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.tasks.problem import Problem

#: Half a surrogate pair, which JSON and the command line can bring.
HALF = re.compile("[\ud800-\udfff]")


def why_not(text: str) -> str | None:
    """Why the text cannot be stored, and what to do; None if it can."""
    if "\0" in text:
        return f"{text!r} holds a NUL, which cannot be stored: leave it out"
    if HALF.search(text):
        return f"{text!r} holds half a surrogate pair, which is no text: leave it out"
    return None


def unstorable(document: object, pointer: str = "") -> Iterator[Problem]:
    """Every text in a document of lists, mappings and values that cannot be stored, by its place."""
    if isinstance(document, str):
        if reason := why_not(document):
            yield Problem(pointer, reason)
    elif isinstance(document, dict):
        for key, value in document.items():
            yield from unstorable(value, f"{pointer}/{key}")
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from unstorable(value, f"{pointer}/{number}")

"""What is wrong with a document, in words that help its author fix it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

_SHOWN = 80


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where (a JSON pointer into the document), what, and what to do."""

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"


class TasksRefused(ValueError):
    """A document is refused; the error has every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))

    def under(self, prefix: str) -> TasksRefused:
        """The same problems, for a document that is at `prefix` in a larger one."""
        return TasksRefused(Problem(f"{prefix}{p.pointer}", p.message) for p in self.problems)


def named_twice(names: Mapping[int, str], what: str) -> list[Problem]:
    """A problem for each document of a list that has the name of an earlier one.

    `names`: each document's name, by its place in the list.
    """
    seen: set[str] = set()
    problems = []
    for number, name in names.items():
        if name in seen:
            reason = f"{name!r} is the name of two {what} here: give each its own"
            problems.append(Problem(f"/{number}/name", reason))
        seen.add(name)
    return problems


_REMEDIES = {
    "string_type": 'a text is expected: put it in quotes, e.g. "{value}"',
    "int_type": "a whole number is expected, without quotes",
    "extra_forbidden": "there is no such key here: check its spelling, or remove it",
    "missing": "this key is missing: add it",
    "model_type": "keys and values are expected here, e.g. {{name: ...}}",
    "tuple_type": "a list is expected, e.g. [a, b]",
}


def explain(error: ValidationError, pointer: str = "") -> list[Problem]:
    """Pydantic's findings as problems that name the field, the value and the remedy."""
    return [_problem(found, pointer) for found in error.errors(include_url=False)]


def _problem(found: Any, pointer: str) -> Problem:
    at = pointer + "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in found["loc"])
    kind, value = found["type"], found.get("input")
    if kind == "value_error":
        return Problem(at, str(found["ctx"]["error"]))
    if kind in ("missing", "extra_forbidden"):
        return Problem(at, _REMEDIES[kind])
    shown = repr(value) if len(repr(value)) <= _SHOWN else repr(value)[:_SHOWN] + "..."
    if kind == "string_pattern_mismatch":
        pattern = found["ctx"]["pattern"]
        return Problem(at, f"{shown} does not match {pattern}: use only those characters")
    remedy = _REMEDIES.get(kind)
    text = remedy.format(value=value) if remedy else found["msg"][0].lower() + found["msg"][1:]
    return Problem(at, f"{shown}: {text}")

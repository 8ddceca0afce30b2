"""Task files: YAML text to specs, and what is wrong with it in one line a problem."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml
from pydantic import ValidationError

from sluice.tasks.problem import Problem, TasksRefused
from sluice.tasks.spec import TaskSpec

#: A file of tasks is written by people; 1 MiB holds thousands of them.
MAX_DOCUMENT = 1 << 20
_SHOWN = 80


class _Loader(yaml.SafeLoader):
    """YAML's safe subset, less duplicate keys: PyYAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice: keep one", node.start_mark
                )
        return super().construct_mapping(node, deep)


def parse_tasks(text: str) -> list[TaskSpec]:
    """The specs of a YAML list of tasks; `TasksRefused` names everything that is wrong with it."""
    if len(text) > MAX_DOCUMENT:
        raise TasksRefused(
            [Problem("", f"{len(text)} characters, {MAX_DOCUMENT} are allowed: split the file")]
        )
    try:
        document = yaml.load(text, _Loader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise TasksRefused([Problem("", f"not YAML: {' '.join(str(error).split())}")]) from None
    if not isinstance(document, list) or not document:
        raise TasksRefused([Problem("", 'a list of tasks is expected: start each with "- name: ..."')])
    return parse_documents(document)


def parse_documents(documents: list[Any]) -> list[TaskSpec]:
    """The specs of already parsed documents (YAML or JSON)."""
    specs: list[TaskSpec] = []
    problems: list[Problem] = []
    for number, document in enumerate(documents):
        try:
            specs.append(TaskSpec.model_validate(document))
        except ValidationError as error:
            problems += explain(error, f"/{number}")
    names = [s.name for s in specs]
    problems += [
        Problem(f"/{n}/name", f"{name!r} is the name of two tasks here: give each its own")
        for n, name in enumerate(names)
        if name in names[:n]
    ]
    if problems:
        raise TasksRefused(problems)
    return specs


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

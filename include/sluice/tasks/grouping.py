"""How a task's lines are distributed to workers, as a user writes it.

Examples are `grouping: planned` or, with parameters, `grouping: {strategy: planned, half_life: 2}`. No result
depends on the grouping, so it is not part of what a version counts: a change takes effect with the next batch
of the same version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from pydantic import GetJsonSchemaHandler, model_serializer, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sluice.grouping import STRATEGIES, strategy
from sluice.tasks.spec_base import Model

AUTO = "auto"
#: The strategies that a task may name, the default first.
NAMES = (AUTO, *STRATEGIES)

_STRATEGY = "strategy"
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "true or false"),
}

Parameter = int | float | bool


class GroupingSpec(Model):
    """A strategy's name, and by name those parameters that are not left at their defaults."""

    strategy: str
    parameters: tuple[tuple[str, Parameter], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _written(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = {_STRATEGY: given}
        if not isinstance(given, Mapping):
            return given
        if _STRATEGY not in given:
            raise ValueError(f"grouping without a strategy: add strategy: {AUTO} or another name")
        name = given[_STRATEGY]
        if name not in NAMES:
            raise ValueError(f"grouping {name!r} is not known: use one of {', '.join(NAMES)}")
        parameters = {key: value for key, value in given.items() if key != _STRATEGY}
        return {_STRATEGY: name, "parameters": _checked(name, parameters)}

    @model_serializer
    def document(self) -> str | dict[str, Any]:
        """The grouping as a user writes it."""
        if not self.parameters:
            return self.strategy
        return {_STRATEGY: self.strategy, **dict(self.parameters)}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        name = {"type": "string", "enum": list(NAMES)}
        written = {
            "type": "object",
            "properties": {_STRATEGY: name},
            "required": [_STRATEGY],
            "additionalProperties": {"type": ["number", "boolean"]},
        }
        return {"title": cls.__name__, "description": cls.__doc__, "anyOf": [name, written]}


def _checked(name: str, given: Mapping[str, Any]) -> tuple[tuple[str, Parameter], ...]:
    """The parameters by name, each of its kind and within its bounds. Raises ValueError.

    Loads a strategy, and numba with it, only if there are parameters to check.
    """
    if not given:
        return ()
    kinds = {} if name == AUTO else {f.name: str(f.type) for f in fields(STRATEGIES[name])}
    found: dict[str, Parameter] = {}
    for parameter, value in given.items():
        if parameter not in kinds:
            known = f"use {', '.join(kinds)}" if kinds else "it has none, so drop it"
            raise ValueError(f"grouping {name} has no parameter {parameter!r}: {known}")
        kind, words = _KINDS[kinds[parameter]]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"grouping {name}: {parameter} is {value!r}; it must be {words}")
        found[parameter] = cast("Parameter", value)
    strategy(name, **found)  # checks the bounds first: not every whole number fits a float
    return tuple((p, float(v) if kinds[p] == "float" else v) for p, v in sorted(found.items()))


#: The grouping of a task if neither it nor its topic names one.
BY_DEFAULT = GroupingSpec(strategy=AUTO)

"""Grouping: which worker gets a tuple.

Each strategy has a file of its own, which is imported on first use, and numba with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice.grouping.base import Strategy

_PLACES = {
    "key": "key.Key",
    "shuffle": "shuffle.Shuffle",
    "pkg": "pkg.PartialKey",
    "d-choices": "d_choices.DChoices",
    "w-choices": "w_choices.WChoices",
    "kg2": "kg2.KG2",
    "dkg": "dkg.DKG",
    "dag": "dag.DAG",
    "nag": "nag.NAG",
    "tag": "tag.TAG",
    "planned": "planned.Planned",
    "combine": "combine.Combine",
}


class UnknownStrategy(ValueError):
    """The requested strategy does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"grouping {name!r} is not known: use one of {', '.join(_PLACES)}")


class _Strategies(Mapping[str, "type[Strategy]"]):
    def __getitem__(self, name: str) -> type[Strategy]:
        module, _, place = _PLACES[name].partition(".")
        found: type[Strategy] = getattr(import_module(f"{__name__}.{module}"), place)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


#: Every strategy by its name.
STRATEGIES: Mapping[str, type[Strategy]] = _Strategies()


def strategy(name: str, **parameters: Any) -> Strategy:
    """The strategy of that name. Raises UnknownStrategy, ParameterOutOfBounds."""
    if name not in _PLACES:
        raise UnknownStrategy(name)
    return STRATEGIES[name](**parameters)


__all__ = ["STRATEGIES", "UnknownStrategy", "strategy"]

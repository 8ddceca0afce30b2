"""Bounds of strategies' parameters."""

from __future__ import annotations

from sluice.grouping.base import ParameterOutOfBounds, Strategy


def within(strategy: Strategy, parameter: str, least: float, most: float) -> None:
    """Raise ParameterOutOfBounds unless least <= the strategy's parameter <= most.

    NaN is never within bounds.
    """
    value = getattr(strategy, parameter)
    if not least <= value <= most:
        raise ParameterOutOfBounds(strategy.name, parameter, value, f"{least:,} to {most:,}")

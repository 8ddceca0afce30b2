"""Checks the configuration people give a run: a mistake fails at once, with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from airflow.sdk.exceptions import AirflowFailException


def day(conf: Mapping[str, Any]) -> date | None:
    """The day that `{"day": "2015-05-17"}` names, or None. Raises AirflowFailException."""
    named = conf.get("day")
    return None if named is None else _date("day", named)


def topics(conf: Mapping[str, Any]) -> list[str] | None:
    """The topics that `{"topics": ["logs"]}` names, or None. Raises AirflowFailException."""
    named = conf.get("topics")
    valid = isinstance(named, list) and all(isinstance(each, str) for each in named)
    if named is not None and not valid:
        raise AirflowFailException(f'topics: {named!r} is no list of names: write {{"topics": ["logs"]}}')
    return named


def days(conf: Mapping[str, Any]) -> list[tuple[str, date]]:
    """The days of topics that `{"days": [{"topic": "logs", "day": "2015-05-17"}]}` names.

    Raises AirflowFailException.
    """
    named = conf.get("days") or []
    valid = isinstance(named, list) and all(
        isinstance(each, dict) and isinstance(each.get("topic"), str) and "day" in each for each in named
    )
    if not valid:
        raise AirflowFailException(
            f'days: {named!r} is no list of days of topics: write {{"days": [{{"topic": "logs", "day": '
            '"2015-05-17"}]}'
        )
    return [(each["topic"], _date(f"days.{n}.day", each["day"])) for n, each in enumerate(named)]


def _date(field: str, text: Any) -> date:
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        raise AirflowFailException(f"{field}: {text!r} is no day: write it like 2015-05-17") from None

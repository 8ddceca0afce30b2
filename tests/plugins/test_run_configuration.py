"""A mistake in a run's configuration fails at once, and says what to write."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice_airflow import run_configuration


def test_what_is_not_named_is_left_to_the_run() -> None:
    assert run_configuration.day({}) is None
    assert run_configuration.topics({}) is None
    assert run_configuration.days({}) == []


def test_what_is_named_is_read() -> None:
    assert run_configuration.day({"day": "2015-05-17"}) == date(2015, 5, 17)
    assert run_configuration.topics({"topics": ["logs", "-x"]}) == ["logs", "-x"]
    named = {"days": [{"topic": "logs", "day": "2015-05-17"}]}
    assert run_configuration.days(named) == [("logs", date(2015, 5, 17))]


@pytest.mark.parametrize("day", ["17/05/2015", "", 20150517.0, ["2015-05-17"], "2015-02-30"])
def test_a_day_that_is_none_is_refused(day: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"^day: .* is no day: write it like 2015-05-17"):
        run_configuration.day({"day": day})
    named = [{"topic": "logs", "day": "2015-05-17"}, {"topic": "logs", "day": day}]
    with pytest.raises(AirflowFailException, match=r"^days\.1\.day: .* is no day"):
        run_configuration.days({"days": named})


@pytest.mark.parametrize("days", ["2015-05-17", ["2015-05-17"], [{"topic": "logs"}], {"logs": "2015-05-17"}])
def test_days_without_their_topic_are_refused(days: Any) -> None:
    with pytest.raises(AirflowFailException, match="is no list of days of topics: write"):
        run_configuration.days({"days": days})

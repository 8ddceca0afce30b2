"""`sluice lag` at the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from sqlalchemy.exc import InterfaceError, OperationalError
from typer.testing import CliRunner

from sluice.cli import lag as module
from sluice.cli.main import app
from sluice.monitoring.lag import measurement
from sluice.monitoring.lag.consumer_lag import LagReport
from tests.monitoring.test_lag import AT, report

run = CliRunner()


class Enough(Exception):
    """The test has seen enough, as a person who presses Ctrl-C."""


def lag(monkeypatch: pytest.MonkeyPatch, *options: str, answers: list[Any]) -> Any:
    """What is printed if the looks have these answers, one after the other."""
    left: Iterator[Any] = iter(answers)

    def looks(*_: Any) -> Any:
        answer = next(left, Enough())
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(measurement, "lag_report", looks)
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.0)
    return run.invoke(app, ["lag", *options])


def away(kind: type[OperationalError] | type[InterfaceError]) -> Exception:
    return kind("SELECT 1", {}, Exception("server closed the connection\nand more"))


def test_watching_goes_on_after_an_outage_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    outages = [away(OperationalError), KafkaConnectionError(), away(InterfaceError), OSError("no route")]
    found = lag(monkeypatch, "--watch", "--json", answers=[report(), *outages, report()])
    assert isinstance(found.exception, Enough)
    looks = [json.loads(line) for line in found.stdout.splitlines()]
    assert [each["problems"][0]["topic"] for each in looks] == ["shop", "shop"]
    told = found.stderr.splitlines()
    assert len(told) == len(outages), "each in one line"
    assert "PostgreSQL does not answer" in told[0]
    assert "Kafka does not answer" in told[1]
    assert "server closed the connection" in told[2]
    assert "no route" in told[3]


def test_watching_does_not_hide_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lag(monkeypatch, "--watch", answers=[TypeError("a defect")])
    assert isinstance(found.exception, TypeError)


def test_one_look_that_fails_ends_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lag(monkeypatch, answers=[away(OperationalError)])
    assert isinstance(found.exception, OperationalError)


def test_one_look_is_printed_once_and_problems_are_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lag(monkeypatch, "--json", answers=[report()])
    assert found.exit_code == 1
    assert json.loads(found.stdout)["problems"]
    assert "1: 2.5 s" in lag(monkeypatch, answers=[report()]).stdout


def test_of_a_topic_that_does_not_exist_only_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lag(monkeypatch, "nope", answers=[LagReport(AT, (), (), {"nope": "it does not exist"})])
    assert (found.exit_code, found.stdout) == (1, "nope: it does not exist\n")

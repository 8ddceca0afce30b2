"""`sluice nightly` as a person meets it; tests/e2e/test_runbook.py runs it in Airflow."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.batch.backfill.ask import BadDays
from sluice.cli import main
from sluice.cli import nightly as module
from sluice.cli.asked_by import me
from sluice.cli.nightly import NightFailed, NightPaused
from sluice.stack import entry, journal
from sluice.stack.airflow import rest_api
from sluice.stack.airflow.answers import DagRun
from tests.own_time import own_time

DAY = date(2015, 5, 17)
DAYS = ["--from", "2015-05-17", "--to", "2015-05-18"]


def run(day: date, state: str) -> DagRun:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return DagRun("nightly_batch", f"backfill__{day}", state, "backfill", day, now, now)


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No instance runs, so there is no network to enter."""
    monkeypatch.setattr(main, "_enter", lambda: None)


class Airflow:
    """A double of Airflow's client: each look at the runs of a backfill shows them further."""

    paused: frozenset[str] = frozenset()
    ends = "success"

    noted: list[dict[str, str]]

    def __init__(self, settings: Any = None, for_user: str = "") -> None:
        self.for_user = for_user
        self.asked: list[tuple[date, date]] = []
        self.looks = 0

    def __enter__(self) -> Airflow:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def is_paused(self, dag: str) -> bool:
        return dag in self.paused

    def backfill(self, dag: str, first: date, last: date, *, timeout: float) -> int:
        assert dag == "nightly_batch"
        self.asked.append((first, last))
        return len(self.asked)

    def backfill_runs(self, number: int) -> list[DagRun]:
        first, last = self.asked[number - 1]
        self.looks += 1
        states = ["queued", "running", self.ends]
        if self.looks == 1:
            return []  # Airflow has not made them yet
        state = states[min(self.looks - 2, 2)]
        return [run(first + timedelta(days=n), state) for n in range((last - first).days + 1)]

    def wait_downstream(self, dag: str, runs: list[DagRun], timeout: float) -> list[DagRun]:
        assert dag == "reconcile"
        assert all(each.state == "success" for each in runs)
        return []


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> type[Airflow]:

    class Own(Airflow):
        noted: list[dict[str, str]] = []  # noqa: RUF012

    monkeypatch.setattr(journal, "note", lambda settings, **said: Own.noted.append(said))
    monkeypatch.setattr(rest_api, "Airflow", Own)
    monkeypatch.setattr(entry, "check", lambda *_: None)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    own_time(monkeypatch, module, sleep=lambda _: None)
    found = {(DAY, "logs"): "agrees", (DAY, "shop"): "superseded", (date(1999, 1, 1), "logs"): "differs"}
    monkeypatch.setattr(module, "outcomes", lambda *_: found)
    return Own


def call(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["nightly", *arguments])


def test_each_day_is_followed_to_its_comparison(airflow: type[Airflow]) -> None:
    shown = call(*DAYS)
    assert shown.exit_code == 0, shown.exception
    assert shown.stdout.splitlines() == [
        "backfill 1 of nightly_batch: 2015-05-17 to 2015-05-18",
        *[f"2015-05-{day}: {state}" for state in ("queued", "running", "success") for day in (17, 18)],
        "2015-05-17 logs: agrees",
        "2015-05-17 shop: superseded",
    ]
    days = {"what": "days", "name": "2015-05-17 to 2015-05-18", "action": "computed again"}
    assert airflow.noted == [{"who": me(), **days}]


def test_who_does_not_wait_is_told_where_to_look(airflow: type[Airflow]) -> None:
    shown = call(*DAYS, "--no-wait")
    assert (shown.exit_code, shown.stdout) == (0, "backfill 1 of nightly_batch: 2015-05-17 to 2015-05-18\n")


def test_a_day_that_was_not_computed_is_named(airflow: type[Airflow]) -> None:
    airflow.ends = "failed"
    shown = call(*DAYS)
    assert isinstance(shown.exception, NightFailed)
    assert "2015-05-17 was not computed: see run backfill__2015-05-17" in str(shown.exception)


def test_a_day_that_differs_is_named(airflow: type[Airflow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "outcomes", lambda *_: {(DAY, "logs"): "differs"})
    shown = call(*DAYS)
    assert isinstance(shown.exception, NightFailed)
    assert str(shown.exception) == "2015-05-17 logs differs: `sluice status` says how"


def test_days_without_lines_are_no_failure(airflow: type[Airflow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "outcomes", lambda *_: {})
    shown = call(*DAYS)
    assert (shown.exit_code, "nothing was compared" in shown.stdout) == (0, True)


@pytest.mark.parametrize("dag", ["nightly_batch", "reconcile"])
def test_a_paused_dag_is_said_before_anything_starts(airflow: type[Airflow], dag: str) -> None:
    airflow.paused = frozenset({dag})
    shown = call(*DAYS)
    assert isinstance(shown.exception, NightPaused)
    assert f"{dag} is paused" in str(shown.exception)
    assert shown.stdout == ""


def test_an_airflow_that_is_away_is_said_at_once(
    airflow: type[Airflow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "check", lambda *_: "connection refused")
    shown = call(*DAYS)
    assert str(shown.exception) == (
        "Airflow does not answer (connection refused): `sluice status` says what runs"
    )


def test_many_days_go_in_stretches_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    own_time(monkeypatch, module, sleep=lambda _: None)
    client = Airflow()
    ended = module.compute(client, DAY, DAY + timedelta(days=119), True, lambda text: None)  # type: ignore[arg-type]
    assert [(last - first).days + 1 for first, last in client.asked] == [50, 50, 20]
    assert {each.day for each in ended} == {DAY + timedelta(days=n) for n in range(120)}
    with pytest.raises(BadDays, match="too many without waiting: ask for 2015-05-17 to 2015-07-05 first"):
        module.compute(client, DAY, DAY + timedelta(days=119), False, lambda text: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (date(2015, 5, 18), DAY, "--from 2015-05-18 is after --to 2015-05-17"),
        (DAY, date(2026, 1, 2), "--to 2026-01-02 is not over"),
    ],
)
def test_days_that_cannot_be_computed(first: date, last: date, said: str) -> None:
    with pytest.raises(BadDays, match=said):
        module.check_over(first, last, date(2026, 1, 2))
    module.check_over(DAY, date(2026, 1, 1), date(2026, 1, 2))


def test_a_topic_that_kafka_lacks_is_made_when_it_is_described(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.cli import topics
    from sluice.transmission import topics as kafka

    there = {"logs"}

    class Topics:
        def __init__(self, settings: Any) -> None:
            pass

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731

        def describe(self, name: str) -> None:
            if name not in there:
                raise kafka.TopicMissing(name)

        def create(self, name: str) -> None:
            there.add(name)

    monkeypatch.setattr(kafka, "Topics", Topics)
    store = SimpleNamespace(apply_all=lambda specs, user: ["created" for _ in specs])
    monkeypatch.setattr(topics, "_store", lambda: store)
    file = tmp_path / "topics.yaml"
    file.write_text(
        "[{name: logs}, {name: shop, format: json, time: {extract: {field: at}, format: iso8601}}]"
    )
    for made in (["shop: made in Kafka"], []):
        shown = CliRunner().invoke(main.app, ["topics", "apply", "-f", str(file)])
        assert shown.stdout.splitlines() == ["logs: created", "shop: created", *made], shown.exception

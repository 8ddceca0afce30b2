"""When the keeper looks at the tables, and when it leaves the endpoint alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.sql import keeper
from sluice.sql.keeper import CHECK_SECONDS, TableKeeper
from sluice.sql.tables import SqlTable
from sluice.storage.hive import SqlUnavailable
from tests.engine.samples import active, spec
from tests.own_time import own_time


class Platform:
    """Tasks, an endpoint and a clock, without any of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tasks, self.now, self.away = [self.task("a")], 1_000.0, False
        self.kept: list[list[str]] = []
        self.said: list[str] = []
        monkeypatch.setattr(keeper, "keep", self._keep)
        monkeypatch.setattr(keeper, "engine", lambda _: None)
        monkeypatch.setattr(keeper, "TaskStore", lambda _: SimpleNamespace(list=lambda: self.tasks))
        own_time(monkeypatch, keeper, monotonic=lambda: self.now)
        self.keeper = TableKeeper(Settings(instance="test"), self.said.append)

    @staticmethod
    def task(name: str, metrics: Sequence[str] = ("count",)) -> Any:
        own = active(spec(name=name))[0].spec.model_copy(update={"metrics": tuple(metrics)})
        return SimpleNamespace(task_id=1, version=1, name=name, label="1v1", spec=own)

    def _keep(self, hive: object, wanted: Sequence[SqlTable]) -> list[str]:
        if self.away:
            raise SqlUnavailable("the SQL endpoint does not answer")
        self.kept.append([table.name for table in wanted])
        return [f"{len(wanted)} tables"]

    def look(self, **problems: str) -> int:
        """One round; returns how often the tables were compared so far."""
        self.keeper.look(problems)
        return len(self.kept)


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    return Platform(monkeypatch)


def test_tables_are_compared_when_tasks_change_and_now_and_then(platform: Platform) -> None:
    assert [platform.look(), platform.look()] == [1, 1]
    platform.tasks.append(platform.task("b"))
    assert [platform.look(), platform.look()] == [2, 2]
    platform.now += CHECK_SECONDS
    assert platform.look() == 3
    assert platform.kept == [["results", "v_a"], ["results", "v_a", "v_b"], ["results", "v_a", "v_b"]]
    assert platform.said == ["2 tables", "3 tables", "3 tables"]


def test_they_are_compared_again_once_the_endpoint_is_back(platform: Platform) -> None:
    platform.look(sql="")
    assert platform.look(sql="no answer") == 1
    assert platform.look(sql="") == 2


def test_an_endpoint_that_does_not_answer_is_said_once_and_asked_again(platform: Platform) -> None:
    platform.away = True
    assert [platform.look(), platform.look()] == [0, 0]
    assert platform.said == ["the SQL tables are not kept: the SQL endpoint does not answer"]
    platform.away = False
    assert platform.look() == 1


def test_a_task_whose_metric_is_gone_has_no_table_and_hinders_no_other(platform: Platform) -> None:
    platform.tasks.append(platform.task("broken", ["nobody_has_it"]))
    assert [platform.look(), platform.look()] == [1, 1]
    assert platform.kept == [["results", "v_a"]]
    assert [line for line in platform.said if line.startswith("broken (1v1) has no table: ")]
    assert len(platform.said) == 2


def test_an_endpoint_of_somebody_else_is_left_alone(platform: Platform) -> None:
    external = Settings(instance="test", external=frozenset({"sql"}))
    beside = TableKeeper(external, platform.said.append)
    beside({})
    assert beside._thread is None

"""`sluice audit` of a topic that does not exist, and of one that has no lines yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.cli.errors import USAGE, explain
from sluice.cli.main import app
from sluice.quality import audit as module
from sluice.quality.hops import HopCounts, Hops, reckon
from sluice.runtime.settings import get_settings
from sluice.storage import postgres
from sluice.storage.tables.topic_totals import TopicTotals
from sluice.tasks import TaskSpec
from sluice.tasks.store import TaskStore
from tests.tasks.database import sqlite


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A platform that has counted nothing, with a task on the topic shop."""
    made = sqlite()
    spec = TaskSpec.model_validate({"name": "sales", "topic": "shop", "period": "1m", "metrics": ["count"]})
    TaskStore(made).apply([spec], "me")

    def nothing(settings: Any, topic: str) -> Hops:
        return reckon(HopCounts(topic, TopicTotals(), {}, (), [], hive_raw=0, hive_unique=0))

    monkeypatch.setattr(module, "audit", nothing)
    monkeypatch.setattr(postgres, "engine", lambda settings: made)
    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


def audit(topic: str) -> Any:
    return CliRunner().invoke(app, ["audit", "--topic", topic])


def test_a_topic_that_does_not_exist_is_refused_with_the_known_ones() -> None:
    refused = audit("nope")
    assert (refused.stdout, refused.exception is not None) == ("", True)
    found = explain(refused.exception)
    assert found is not None
    assert "there is no topic 'nope'" in found.message
    assert "the topics are logs, shop" in found.message
    assert found.code == USAGE


@pytest.mark.parametrize("topic", ["logs", "shop"])
def test_a_topic_without_lines_is_all_zero(topic: str) -> None:
    assert audit(topic).exit_code == 0

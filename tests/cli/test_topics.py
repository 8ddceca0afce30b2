"""`sluice topics` where several drivers share the topics, and the replay of a topic's lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from sluice.archive import index
from sluice.cli.errors import USAGE, explain
from sluice.cli.main import app
from sluice.letters import replay as replays
from sluice.letters.line_replay import ReplayReport
from sluice.letters.replay import ReplayRequest
from sluice.runtime.settings import get_settings
from sluice.speed import topic_moves
from sluice.storage import postgres
from sluice.storage.tables import schema
from sluice.storage.tables.speed_topics import SpeedTopics
from sluice.tasks import TaskSpec
from sluice.tasks.store import TaskStore
from tests.tasks.database import sqlite

FIRST, SECOND = "speed_layer", "speed_layer-2"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    """Two drivers, of which the first runs, and the topics logs and shop."""
    made = sqlite()
    monkeypatch.setattr(postgres, "engine", lambda settings: made)
    monkeypatch.setattr(topic_moves, "engine", lambda settings: made)
    for name, value in {"INSTANCE": "test", "HOME": str(tmp_path), "SPEED__DRIVERS": "2"}.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    get_settings.cache_clear()
    specs = [{"name": f"hits_{topic}", "topic": topic, "metrics": ["count"]} for topic in ("logs", "shop")]
    TaskStore(made).apply([TaskSpec.model_validate({**each, "period": "1m"}) for each in specs], "me")
    with made.begin() as connection:
        rows = [{"topic": topic, "driver": FIRST, "owner": FIRST} for topic in ("logs", "shop")]
        connection.execute(sa.insert(schema.speed_topics), rows)
    runs(tmp_path, FIRST)
    yield made
    get_settings.cache_clear()


def runs(home: Path, driver: str) -> None:
    """Let the driver say that it runs."""
    (home / "run").mkdir(exist_ok=True)
    said = {"state": "running", "updated_at": datetime.now(UTC).isoformat(), "topics": {}}
    (home / "run" / f"{driver}.progress.json").write_text(json.dumps(said))


def sluice(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["topics", *arguments])


def test_the_list_shows_who_should_count_a_topic_and_who_does(database: sa.Engine, tmp_path: Path) -> None:
    runs(tmp_path, SECOND)
    moved = sluice("move", "shop", SECOND)
    assert (moved.exit_code, moved.output) == (0, "shop: moves to speed_layer-2\n")
    assert sluice("move", "shop", SECOND).output == "shop: speed_layer-2 counts it already\n"
    rows = list(csv.DictReader(io.StringIO(sluice("list", "--format", "csv").output)))
    assert {row["topic"]: (row["driver"], row["owner"]) for row in rows} == {
        "logs": (FIRST, FIRST),
        "shop": (SECOND, FIRST),
    }


@pytest.mark.usefixtures("database")
def test_one_driver_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SPEED__DRIVERS", "1")
    get_settings.cache_clear()
    assert "driver" not in sluice("list").output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("nothing", FIRST), "topic 'nothing' is not counted: the topics are logs, shop"),
        (("shop", "speed_layer-3"), "the drivers are speed_layer, speed_layer-2"),
        (("shop", SECOND), "driver 'speed_layer-2' has shown no sign of life for 30 s"),
    ],
)
def test_a_wrong_name_is_answered_with_what_exists(
    database: sa.Engine, arguments: tuple[str, str], answer: str
) -> None:
    refused = sluice("move", *arguments)
    assert refused.exception is not None
    said = explain(refused.exception)
    assert said is not None
    assert (answer in said.message, said.code) == (True, USAGE)
    assert SpeedTopics(database).places()["shop"].driver == FIRST


def test_topics_are_spread_and_a_dry_run_moves_nothing(database: sa.Engine, tmp_path: Path) -> None:
    assert sluice("spread").output == "nothing moves: the drivers that run are about equally loaded\n"
    runs(tmp_path, SECOND)
    planned = sluice("spread", "--dry-run").output
    assert "speed_layer -> speed_layer-2" in planned
    assert {each.driver for each in SpeedTopics(database).places().values()} == {FIRST}
    assert sluice("spread").output == planned
    assert {each.driver for each in SpeedTopics(database).places().values()} == {FIRST, SECOND}


def test_a_replay_sends_all_lines_that_arrived_then(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def replay(settings: Any, asked: ReplayRequest, since: Any, until: Any) -> ReplayReport:
        given.append((asked.topic, asked.into, asked.dry_run, since, until))
        return ReplayReport(9, 4, read=[b'[17/May/2015:10:05:03 +0000] "GET /"'])

    monkeypatch.setattr(replays, "replay_topic", replay)
    found = sluice(
        "replay", "logs", "--into", "shop", "--dry-run", "--from", "2026-01-05", "--to", "2026-01-06"
    )
    assert "4 of 9 lines of logs would be sent to shop" in found.stdout
    assert found.stdout.splitlines()[-1].split()[:2] == ["2015-05-17T10:05:03Z"] * 2
    assert "4 of 9 lines of logs were sent to shop" in sluice("replay", "logs", "--into", "shop").stdout
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (5, 6)]
    assert given == [("logs", "shop", True, *days), ("logs", "shop", False, None, None)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lgos", "--into", "shop"], "there is no topic 'lgos'"),
        (["shop", "--into", "shop"], "its format never changes"),
        (["shop", "--into", "shpo"], "there is no topic 'shpo'"),
        (["shop", "--into", "logs"], "the speed layer has not begun to count hits_logs"),
        (["shop", "--into", "logs", "--since", "1h", "--from", "2026-01-05"], "--since and --from"),
        (["shop", "--into", "logs", "--since", "soon"], "--since: 'soon' is no duration"),
    ],
)
def test_a_replay_that_would_not_count_is_refused(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    for module in (replays, index):
        monkeypatch.setattr(module, "engine", lambda settings: database)
    found = sluice("replay", *arguments)
    assert found.exception is not None
    explained = explain(found.exception)
    assert explained is not None, found.exception
    assert said in explained.message
    assert explained.code == USAGE

"""Each change of the definitions is a file; the newest ones stay, and no poorer database replaces them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.backup import definition_files as module
from sluice.backup import definitions
from sluice.backup.definition_files import ALERTS, KEPT, DefinitionFiles, DefinitionKeeper, NoDefinitions
from sluice.backup.definitions import Definitions
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsUnavailable
from sluice.storage.postgres import engine
from sluice.storage.stores import LocalStore
from sluice.storage.tables import schema
from sluice.storage.tables.alerts import open_alerts
from sluice_lab.waiting import until
from tests.backup.test_definitions import filled, versioned


@pytest.fixture
def files(tmp_path: Path) -> DefinitionFiles:
    return DefinitionFiles(LocalStore(), str(tmp_path / "definitions"))


@pytest.fixture
def database(files: DefinitionFiles, monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    made = filled()
    monkeypatch.setattr(module, "engine", lambda _: made)
    monkeypatch.setattr(DefinitionFiles, "of", lambda *_: files)
    return made


def names(files: DefinitionFiles) -> list[str]:
    return sorted(path.name for path in Path(files.folder).iterdir())


def pause(database: sa.Engine, paused: bool) -> None:
    with database.begin() as connection:
        connection.execute(sa.update(schema.tasks).values(enabled=not paused))


def test_only_a_change_is_written_and_the_newest_stay(files: DefinitionFiles, database: sa.Engine) -> None:
    said: list[str] = []
    keeper = DefinitionKeeper(Settings(instance="test"), said.append)
    for _ in range(3):
        keeper.look()
    assert names(files) == [f"{1:020d}.json"]
    for number in range(KEPT + 1):
        pause(database, number % 2 == 0)
        keeper.look()
    assert names(files) == [f"{number:020d}.json" for number in range(3, KEPT + 3)]
    assert files.newest().definitions == definitions.read(database)
    assert said[-1] == f"definitions changed: {files.folder}/{KEPT + 2:020d}.json"
    DefinitionKeeper(Settings(instance="test"), said.append).look()  # a watch that starts again
    assert len(names(files)) == KEPT


def test_a_damaged_file_is_passed_over(files: DefinitionFiles) -> None:
    with pytest.raises(NoDefinitions, match="there is no file"):
        files.newest()
    first = Definitions("0032", {"tasks": []})
    files.write(first)
    damaged = Path(files.folder) / files.write(replace(first, revision="0033"))
    damaged.write_text('{"revision": "00')
    assert files.newest().definitions == first
    assert files.write(first) == f"{3:020d}.json"


def test_a_database_that_knows_less_replaces_nothing(
    files: DefinitionFiles, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = DefinitionKeeper(Settings(instance="test"), print)
    keeper.look()
    emptied = versioned()
    monkeypatch.setattr(module, "engine", lambda _: emptied)
    for _ in range(2):
        keeper.look()
    (alert,) = open_alerts(emptied, ALERTS)
    assert "knows of 0 changes of tasks, and the definitions in HDFS of 7" in alert.message
    assert files.newest().definitions == definitions.read(database)
    monkeypatch.setattr(module, "engine", lambda _: database)
    keeper.look()
    assert names(files) == [f"{1:020d}.json"]


def test_a_fault_is_said_once_and_a_sick_daemon_is_not_asked(
    files: DefinitionFiles, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> DefinitionFiles:
        raise HdfsUnavailable("HDFS is away")

    said: list[str] = []
    keeper = DefinitionKeeper(Settings(instance="test"), said.append)
    with monkeypatch.context() as fault:
        fault.setattr(DefinitionFiles, "of", away)
        keeper({"namenode": "not running"})
        assert keeper._thread is None
        for _ in range(2):
            keeper.look()
    assert said == ["definitions are not kept in HDFS: HDFS is away"]
    keeper.look()
    assert names(files) == [f"{1:020d}.json"]


@pytest.mark.stack
def test_the_running_watch_keeps_them(stack: Settings) -> None:
    wanted = definitions.read(engine(stack)).changes

    def kept() -> bool:
        try:
            return DefinitionFiles.of(stack).newest().definitions.changes >= wanted
        except NoDefinitions:
            return False

    until(kept, 120.0, "the watch writes the definitions")

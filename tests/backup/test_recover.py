"""A recovery that is cut short at any step leaves an instance that does not start, and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sluice.archive import verification
from sluice.backup import definition_files
from sluice.backup import recover as module
from sluice.backup.contents import (
    DATABASE,
    MARKER,
    RECOVERING,
    RecoveryUnfinished,
    RestoreUnfinished,
    require_whole,
)
from sluice.backup.definition_files import DefinitionFiles, NoDefinitions
from sluice.backup.definitions import Definitions
from sluice.backup.recover import DEFINED, RecoveredTopic, RecoveryRefused, look, recover
from sluice.runtime.settings import Settings
from sluice.storage.stores import LocalStore
from tests.backup import stores

STEPS = ["define", "index", "empty_tables", "count"]
KEPT = Definitions(
    "0032", {"tasks": [{"name": "hits", "deleted_at": None}, {"name": "old", "deleted_at": "2026"}]}
)


@dataclass
class RecordedSteps:
    """The steps that daemons carry out, in their order; the process dies at one of them (the fault)."""

    dies_at: str = ""
    done: list[str] = field(default_factory=list)

    def step(self, name: str, answer: Any = None) -> Callable[..., Any]:
        def run(settings: Settings, *_: Any, **__: Any) -> Any:
            self.done.append(name)
            if name == self.dies_at:
                raise KeyboardInterrupt
            if name == "define":
                (settings.home / RECOVERING).write_text(DEFINED)
            return answer

        return run

    @contextmanager
    def daemons(self, settings: Settings, say: object, names: tuple[str, ...]) -> Iterator[Settings]:
        assert names == module.LOOK
        self.done.append("look")
        yield settings
        self.done.append("down")

    def up(self, settings: Settings, *_: object) -> None:
        self.done.append("up")
        (settings.home / DATABASE).mkdir(parents=True, exist_ok=True)
        (settings.home / DATABASE / "PG_VERSION").touch()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An instance without its database."""
    made = stores.instance(tmp_path)
    (made.home / "data" / "namenode").mkdir(parents=True)
    (made.home / "secrets").mkdir()
    (made.home / "secrets" / "settings.json").touch()
    stores.write_archive(Path(made.hdfs.raw), 0, 9)
    DefinitionFiles(LocalStore(), f"{Path(made.hdfs.raw).parent}/definitions").write(KEPT)
    return made


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> RecordedSteps:
    made = RecordedSteps()
    answers = {"index": ("a gap",), "count": RecoveredTopic("logs", 7, 3, ("a gap",))}
    for name in STEPS:
        monkeypatch.setattr(module, name, made.step(name, answers.get(name)))
    monkeypatch.setattr(module, "running_daemons", made.daemons)
    monkeypatch.setattr(module.bringup, "up", made.up)
    monkeypatch.setattr(module.supervisord, "stop_program", lambda *_: None)
    monkeypatch.setattr(module.shutdown, "down", made.step("stop"))
    for where in (definition_files, verification):
        monkeypatch.setattr(
            where, "HdfsStore", type("OnThisMachine", (), {"of": lambda *_, **__: LocalStore()})
        )
    return made


def test_a_database_is_made_again_in_order(settings: Settings, steps: RecordedSteps) -> None:
    plan, done = recover(settings, stores.quiet, stores.silent)
    assert steps.done == ["look", "up", *STEPS, "down"]
    assert (plan.tasks, plan.archived.keys()) == (["hits"], {"logs"})
    assert abs((datetime.now(UTC) - plan.written).total_seconds()) < 60
    assert done == [RecoveredTopic("logs", 7, 3, ("a gap",))]
    require_whole(settings)
    with pytest.raises(RecoveryRefused, match="is there, and a recovery never replaces a database"):
        recover(settings, stores.quiet, stores.silent)


@pytest.mark.parametrize("where", STEPS)
def test_one_that_is_cut_short_does_not_start_and_goes_on(
    settings: Settings, steps: RecordedSteps, where: str
) -> None:
    steps.dies_at = where
    with pytest.raises(KeyboardInterrupt):
        recover(settings, stores.quiet, stores.silent)
    with pytest.raises(RecoveryUnfinished, match="sluice --instance trial recover"):
        require_whole(settings)
    (settings.home / DATABASE / "rows").touch()
    steps.dies_at, steps.done = "", []
    recover(settings, stores.quiet, stores.silent)
    assert steps.done == ["stop", "look", "up", *STEPS, "down"]
    assert (settings.home / DATABASE / "rows").exists() == (
        where != "define"
    )  # one without rows is made anew
    require_whole(settings)


def test_a_look_changes_nothing(settings: Settings, steps: RecordedSteps) -> None:
    before = sorted(settings.home.rglob("*"))
    assert look(settings, stores.silent).archived["logs"][0] == 1
    assert steps.done == ["look", "down"]
    assert sorted(settings.home.rglob("*")) == before


def test_without_definitions_nothing_is_changed(settings: Settings, steps: RecordedSteps) -> None:
    for path in (Path(settings.hdfs.raw).parent / "definitions").iterdir():
        path.unlink()
    before = sorted(settings.home.rglob("*"))
    with pytest.raises(NoDefinitions, match="sluice restore"):
        recover(settings, stores.quiet, stores.silent)
    assert sorted(settings.home.rglob("*")) == before


def test_what_is_not_lost_is_refused(
    settings: Settings, steps: RecordedSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = settings.model_copy(update={"external": frozenset({"hbase", "kafka"})})
    with pytest.raises(RecoveryRefused, match="external: hbase run elsewhere"):
        look(elsewhere, stores.silent)
    with monkeypatch.context() as running:
        running.setattr(module.supervisord, "running", lambda _: True)
        with pytest.raises(RecoveryRefused, match="--instance trial down"):
            look(settings, stores.silent)
    (settings.home / MARKER).touch()
    with pytest.raises(RestoreUnfinished):
        look(settings, stores.silent)
    (settings.home / MARKER).unlink()
    (settings.home / "data" / "namenode").rmdir()
    with pytest.raises(RecoveryRefused, match="there is no archive to recover from"):
        look(settings, stores.silent)
    assert steps.done == []

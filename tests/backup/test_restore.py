"""A restore that is cut short at any step leaves an instance that does not start, and then begins anew."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from sluice.backup import admission, database_copy, own_files
from sluice.backup import restore as module
from sluice.backup.admission import TargetInUse
from sluice.backup.contents import MARKER, ROLES, RestoreUnfinished, require_whole
from sluice.backup.folder import LISTED, BackupFolder
from sluice.backup.manifest import DamagedBackup
from sluice.backup.parts import BackupParts
from sluice.backup.restore import RestoreDiffers, restore
from sluice.runtime.settings import Settings, make_secret, read_secret
from sluice.storage import postgres
from sluice.storage.tables import schema
from sluice_lab.bench.databases import empty_database
from tests.backup import stores

OLDER = "0032"
STEPS = ["up", "databases", "files", "tables", "archive", "down"]


@dataclass
class RecordedSteps:
    """The steps that daemons carry out, in their order; the process dies at one of them (the fault)."""

    dies_at: str = ""
    done: list[str] = field(default_factory=list)

    def step(self, name: str, answer: Any = None) -> Callable[..., Any]:
        def run(settings: Settings, *_: Any, **__: Any) -> Any:
            self.done.append(name)
            (settings.home / f"left-by-{name}").touch()
            if name == self.dies_at:
                raise KeyboardInterrupt
            return answer

        return run


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> RecordedSteps:
    made = RecordedSteps()
    for name, answer in {"databases": None, "files": None, "tables": 5, "archive": (7, [])}.items():
        monkeypatch.setattr(module, name, made.step(name, answer))
    monkeypatch.setattr(module.bringup, "up", made.step("up"))
    monkeypatch.setattr(module.bringup, "reread", lambda settings: settings)
    monkeypatch.setattr(module.shutdown, "down", made.step("down"))
    monkeypatch.setattr(module.shutdown, "abandon", made.step("abandon"))
    monkeypatch.setattr(module.supervisord, "stop_program", lambda *_: None)
    monkeypatch.setattr(admission, "require_fitting", lambda *_: None)
    return made


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    source = stores.instance(tmp_path / "source")
    make_secret(source.home, "identity")
    parts = BackupParts(tmp_path / "backups" / "20260105T020000.000000Z")
    own_files.save_secrets(source, parts)
    parts.add("settings/instance/collection.yaml", b"topic: logs")
    parts.add(LISTED, b"")
    made = stores.manifest(parts=tuple(parts.found), secrets=own_files.fingerprint(source))
    made.write(parts.folder)
    return parts.folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return stores.instance(tmp_path)


def run(settings: Settings, source: Path) -> module.Restored:
    return restore(settings, source, stores.quiet, stores.silent)


def test_a_backup_is_restored_in_order(settings: Settings, backup: Path, steps: RecordedSteps) -> None:
    done = run(settings, backup.parent)
    assert steps.done == STEPS
    assert (done.backup, done.rows, done.cells, done.lines) == (backup, 2, 5, 7)
    assert read_secret(settings.home, "identity")
    assert (settings.home / "collection.yaml").read_text() == "topic: logs"
    require_whole(settings)
    with pytest.raises(TargetInUse):
        run(settings, backup)


@pytest.mark.parametrize("where", STEPS)
def test_one_that_is_cut_short_does_not_start_and_begins_anew(
    settings: Settings, backup: Path, steps: RecordedSteps, where: str
) -> None:
    steps.dies_at = where
    with pytest.raises(KeyboardInterrupt):
        run(settings, backup)
    with pytest.raises(RestoreUnfinished):
        require_whole(settings)
    (settings.home / "data" / "postgres").mkdir(parents=True)
    steps.dies_at, steps.done = "", []
    run(settings, backup)
    assert steps.done == ["abandon", *STEPS]
    assert {path.name for path in settings.home.iterdir()} == {
        "collection.yaml", "data", "secrets", *(f"left-by-{name}" for name in STEPS),
    }  # fmt: skip
    assert not list((settings.home / "data").iterdir())
    require_whole(settings)


def test_daemons_are_stopped_when_a_step_fails(
    settings: Settings, backup: Path, steps: RecordedSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(*_: Any) -> int:
        raise RestoreDiffers("other cells")

    monkeypatch.setattr(module, "tables", differs)
    with pytest.raises(RestoreDiffers):
        run(settings, backup)
    assert steps.done == ["up", "databases", "files", "down"]
    assert (settings.home / MARKER).exists()


def test_a_damaged_backup_writes_nothing(settings: Settings, backup: Path, steps: RecordedSteps) -> None:
    (backup / "settings" / "instance" / "collection.yaml").write_text("topic: lags")
    with pytest.raises(DamagedBackup):
        run(settings, backup)
    assert not settings.home.exists()
    assert steps.done == []


def test_a_backup_of_two_is_chosen_by_its_name(
    settings: Settings, backup: Path, steps: RecordedSteps
) -> None:
    newer = BackupParts(backup.parent / "20260106T020000.000000Z")
    newer.add(LISTED, b"")
    stores.manifest(parts=tuple(newer.found)).write(newer.folder)
    assert BackupFolder(backup.parent).complete() == [backup, newer.folder]
    assert run(settings, backup).backup == backup


def test_secrets_may_come_from_another_backup(
    settings: Settings, backup: Path, steps: RecordedSteps, tmp_path: Path
) -> None:
    apart = (backup / own_files.SECRETS).rename(tmp_path / own_files.SECRETS)
    made = module.Manifest.read(backup)
    left = tuple(part for part in made.parts if part.path != own_files.SECRETS)
    replace(made, with_secrets=False, parts=left).write(backup)
    restore(settings, backup, stores.quiet, stores.silent, apart)
    assert read_secret(settings.home, "identity")


@pytest.mark.stack
def test_rows_of_an_older_release_are_brought_to_this_one(
    stack: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup is taken before an upgrade. Airflow and the metastore bring their own databases on."""
    load, parts = database_copy.load, BackupParts(tmp_path)
    for owner, name in (
        (module.airflow, "prepare_home"),
        (module.airflow, "migrate"),
        (module.hive, "create_schema"),
    ):
        monkeypatch.setattr(owner, name, lambda settings: None)
    names = [f"older_{secrets.token_hex(4)}" for _ in range(2)]
    with empty_database(stack, names[0]) as before, empty_database(stack, names[1]) as after:
        postgres.migrate(before, OLDER)
        with postgres.engine(before).begin() as connection:
            connection.execute(
                sa.text("INSERT INTO topics (name, spec, created_by) VALUES ('logs', '{}', 'ann')")
            )
        with closing(database_copy.DatabaseSnapshot(before.postgres)) as snapshot:
            ours = snapshot.dump(parts, "postgres", OLDER, stores.silent)

        def load_ours(own: Any, dumped: Any, *others: Any) -> None:
            if dumped is ours:
                load(own, dumped, *others)

        monkeypatch.setattr(database_copy, "load", load_ours)
        theirs = dict.fromkeys(ROLES, stores.manifest().databases["sluice"])
        module.databases(after, tmp_path, stores.manifest(databases={**theirs, "sluice": ours}), stores.quiet)
        with postgres.engine(after).connect() as connection:
            assert connection.scalars(sa.select(schema.topics.c.name)).all() == ["logs"]
            context = MigrationContext.configure(connection)
            assert compare_metadata(context, schema.metadata) == []

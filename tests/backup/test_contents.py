"""What runs elsewhere is in no backup, and an instance that is half there does not start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice.backup.contents import (
    CELLS,
    DATABASE,
    MARKER,
    METASTORE,
    ExternalService,
    RestoreUnfinished,
    require_own,
    require_whole,
)
from sluice.cli import instance
from sluice.runtime.settings import Settings
from sluice.stack import settings_book
from sluice.stack.daemons import hive, postgres
from sluice.storage.hbase import FINALS, RESULTS, STATE
from tests.backup import stores


def test_an_instance_with_services_elsewhere_is_refused() -> None:
    require_own(Settings(instance="test", external=frozenset({"kafka", "sql"})))
    with pytest.raises(ExternalService, match="hbase, postgres run elsewhere"):
        require_own(Settings(instance="test", external=frozenset({"postgres", "hbase", "kafka"})))


def test_an_instance_that_is_half_restored_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        raise AssertionError

    settings = stores.instance(tmp_path)
    settings.home.mkdir(parents=True)
    require_whole(settings)
    (settings.home / MARKER).touch()
    monkeypatch.setattr(instance.bringup, "up", started)
    with pytest.raises(RestoreUnfinished, match="sluice restore SOURCE --instance trial"):
        instance.up(settings, stores.silent)


def test_an_instance_that_was_up_does_not_begin_with_an_empty_database(tmp_path: Path) -> None:
    settings = stores.instance(tmp_path)
    (settings.home / "secrets").mkdir(parents=True)
    require_whole(settings)  # it was never up
    assert settings_book.changed(settings) == ({}, {})
    with pytest.raises(postgres.DatabaseLost, match="sluice --instance trial recover"):
        require_whole(settings)
    with pytest.raises(postgres.DatabaseLost):  # as when the supervisor starts it again
        postgres.initialise(settings)
    for name in postgres.MADE_AGAIN:
        (settings.home / name).touch()
        postgres.require_data(settings)
        (settings.home / name).unlink()
    require_whole(settings.model_copy(update={"external": frozenset({"postgres"})}))
    postgres.initialised(settings).parent.mkdir(parents=True)
    postgres.initialised(settings).touch()
    assert postgres.initialised(settings).parent == settings.home / DATABASE
    require_whole(settings)


def test_the_names_are_those_of_the_stores() -> None:
    assert list(CELLS) == [RESULTS, FINALS, STATE]
    assert METASTORE in hive.SCHEMA


@pytest.mark.slow
def test_neither_a_restore_nor_a_recovery_has_a_thread_before_it_enters_the_network() -> None:
    looks = (
        "import sys, sluice.backup.restore, sluice.backup.recover, sluice.cli.backup, sluice.cli.recover; "
        "print({'numpy', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

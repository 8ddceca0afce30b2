"""An older release is kept off an instance's data, and a running one takes no other release's code."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from pydantic import ValidationError

from sluice.cli.errors import USAGE, explain
from sluice.runtime import given_secrets
from sluice.runtime.installed import own_version
from sluice.runtime.settings import Settings
from sluice.stack import initialise, releases
from sluice.storage import migrations, postgres


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="test", home=tmp_path)


def test_0_1_0_would_say_what_to_do_and_this_release_takes_no_notice(settings: Settings) -> None:
    releases.keep_older_out(settings)
    releases.keep_older_out(settings)  # `sluice up` does it each time
    path = settings.home / releases.READ_BY_0_1_0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ((name, value),) = json.loads(path.read_text()).items()
    assert name == "SLUICE_HADOOP_HOST"
    with pytest.raises(ValidationError) as refused:  # as 0.1.0 reads it
        Settings(instance="test", home=settings.home, hadoop_host=value)
    said = explain(refused.value)
    assert said is not None
    assert said.code == USAGE
    assert said.message.startswith("hadoop_host: 'Instance test was upgraded")
    assert "Check the newer release out again (git checkout, make setup, sluice up)" in said.message
    assert given_secrets.read(settings.home) == {}
    assert Settings(instance="test", home=settings.home).hadoop_host == ""


def test_a_database_that_is_refused_stays_its_release_s(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Settings) -> None:
        raise postgres.SchemaRefused("too old")

    monkeypatch.setattr(postgres, "require_known", refuse)
    with pytest.raises(postgres.SchemaRefused):
        initialise.database(settings)
    assert not (settings.home / releases.READ_BY_0_1_0).exists()


def test_what_runs_is_this_release_s_or_must_be_stopped(settings: Settings) -> None:
    with pytest.raises(releases.OtherReleaseRuns, match=r"release 0\.1\.0 .*`sluice --instance test down`"):
        releases.require_own(settings)  # 0.1.0 leaves no note
    (settings.home / "conf").mkdir()
    releases.note_start(settings)
    releases.require_own(settings)
    (settings.home / releases.STARTED_WITH).write_text("9.9 (schema 9999)")
    with pytest.raises(releases.OtherReleaseRuns, match=r"release 9\.9 \(schema 9999\), and this one is "):
        releases.require_own(settings)


def test_a_release_is_known_by_its_version_and_its_schema() -> None:
    assert releases.own_release() == f"{own_version()} (schema {migrations.newest()})"

"""A job on another host has the platform's settings, whatever its own release's file says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePath

import pytest

from sluice.elsewhere.environment import environment
from sluice.runtime.settings import Settings, make_secret


def test_a_job_elsewhere_resolves_the_same_settings(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("postgres", "identity"):
        make_secret(settings.home, name)
    here = Settings(
        instance="test", home=settings.home, root=settings.root, port_base=29_000, network="private"
    )
    odd = here.postgres.model_copy(update={"user": "it's $HOME"})
    here = here.model_copy(update={"postgres": odd})
    file = tmp_path / "environment"
    file.write_text(environment(here, PurePath(tmp_path / "far"), "/opt/sluice"))
    told = subprocess.run(
        ["sh", "-c", f". {file}; env -0"], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    for line in filter(None, told.stdout.split("\0")):
        name, _, value = line.partition("=")
        if name.startswith("SLUICE_"):
            monkeypatch.setenv(name, value)
    there = Settings()
    for name in ("kafka", "hdfs", "hbase", "postgres", "spark", "archive", "limits", "port_base", "instance"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.postgres.password == make_secret(settings.home, "postgres")
    assert there.kafka.identity_key == make_secret(settings.home, "identity")
    assert (there.home, there.root, there.private) == (tmp_path / "far", Path("/opt/sluice"), False)


def test_it_gets_no_secret_that_it_does_not_need(settings: Settings) -> None:
    secret = make_secret(settings.home, "sql")
    here = Settings(instance="test", home=settings.home, root=settings.root, port_base=29_000)
    assert here.hive.password == secret
    assert secret not in environment(here, PurePath("/far"), "/opt/sluice")

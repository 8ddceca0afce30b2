"""The doors' certificate: nothing is said before two weeks are left, then when it ends and what to do."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.monitoring.observer import ending_certificate
from sluice.runtime.settings import Settings
from sluice.stack import tls


def of(home: Path, **given: Any) -> Settings:
    return Settings(instance="test", home=home, tls={"mode": "on", **given})


@pytest.mark.parametrize(
    ("hours", "said"),
    [(397 * 24, ""), (15 * 24, ""), (13 * 24, "certificate of the doors ends on"), (-1, "ended on")],
)
def test_it_is_said_two_weeks_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int, said: str
) -> None:
    monkeypatch.setattr(tls, "VALID", timedelta(hours=hours))
    monkeypatch.setattr(tls, "_check", lambda *_: None)  # it refuses one that has ended
    tls.prepare_tls(of(tmp_path))
    found = dict(ending_certificate(of(tmp_path)))
    assert list(found) == (["certificate"] if said else [])
    assert said in found.get("certificate", "")
    if said:
        assert "`sluice up` makes a new one" in found["certificate"]
        own = dict(ending_certificate(of(tmp_path, certificate="/etc/own.crt", key="k", authority="a")))
        assert "put a new one into /etc/own.crt, with its key" in own["certificate"]


def test_nothing_is_said_without_tls_or_before_the_first_start(tmp_path: Path) -> None:
    assert not dict(ending_certificate(Settings(instance="test", home=tmp_path)))
    assert not dict(ending_certificate(of(tmp_path)))

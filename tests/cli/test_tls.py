"""`sluice tls`: what it says with TLS, without it, and before there is a certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli import main
from sluice.cli.tls import NoTls
from sluice.runtime.settings import Settings
from sluice.stack.tls import prepare_tls


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    monkeypatch.setenv("SLUICE_TLS__MODE", "on")
    return tmp_path


def printed(*argv: str) -> str:
    done = CliRunner().invoke(main.app, ["tls", *argv], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_it_says_how_to_connect_and_whom_to_trust(home: Path) -> None:
    prepare_tls(Settings())
    said = printed()
    assert "TLS at       airflow, sql, postgres\n" in said
    assert f"psql         sslmode=verify-full sslrootcert={home}/tls/instance.crt" in said
    assert "https://127.0.0.1:23080" in said
    assert f"jdbc:hive2://127.0.0.1:23070/sluice;ssl=true;sslTrustStore={home}/tls/authority.p12" in said
    assert "SHA-256 " in said


def test_it_prints_the_authority_alone(home: Path) -> None:
    prepare_tls(Settings())
    text = printed("--authority")
    assert text == (home / "tls" / "authority.crt").read_text()
    ssl.create_default_context(cadata=text)
    assert "PRIVATE" not in text


@pytest.mark.usefixtures("home")
def test_before_the_first_start_it_says_what_makes_it() -> None:
    with pytest.raises(NoTls, match="`sluice up` makes it"):
        printed()


@pytest.mark.usefixtures("home")
def test_without_tls_it_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_TLS__MODE", "auto")
    with pytest.raises(NoTls, match=r"listen at 127\.0\.0\.1.*tls: \{mode: on\}"):
        printed()

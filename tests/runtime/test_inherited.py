"""What a process gets of its starter's environment, and where secrets go instead."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from sluice.runtime import detached, given_secrets, inherited
from sluice.runtime.settings import Settings, get_settings
from sluice_lab.waiting import until

#: Names that say that a setting is a secret, or an address that holds one.
SECRET = re.compile(r"password|secret|token|_key$|webhook|login$|credential")
#: Settings that sound like one: a switch, names of files, and a section whose secrets are in files.
HARMLESS = {
    "SLUICE_API__VIEWERS_SEE_KEYS",
    "SLUICE_KAFKA__LOGIN__KEY",
    "SLUICE_LOGIN",
    "SLUICE_LOGIN__LDAP__BIND_PASSWORD_FILE",
    "SLUICE_LOGIN__OIDC__CLIENT_SECRET_FILE",
    "SLUICE_TLS__KEY",
}


def names(model: type[BaseModel], prefix: str = "SLUICE_") -> Iterator[str]:
    """The variables of all settings, sections included."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name.upper()}"
        inner = inherited._model(field.annotation)
        if inner is not None:
            yield from names(inner, f"{prefix}{name.upper()}__")


def test_a_setting_that_sounds_like_a_secret_passes_in_no_environment() -> None:
    passing = {name for name in names(Settings) if inherited.passes(name)}
    assert {name for name in passing if SECRET.search(name.lower())} <= HARMLESS
    assert {"SLUICE_KAFKA__BOOTSTRAP", "SLUICE_POSTGRES__HOST", "SLUICE_SPARK", "SLUICE_HOSTS"} <= passing


@pytest.mark.parametrize(
    "name",
    [
        *("SLUICE_POSTGRES", "SLUICE_POSTGRES__PASSWORD", "SLUICE_POSTGRES__AIRFLOW"),
        *(
            "SLUICE_POSTGRES__METASTORE__PASSWORD",
            "SLUICE_KAFKA",
            "SLUICE_KAFKA__LOGIN",
            "SLUICE_HIVE__PASSWORD",
        ),
        *("SLUICE_NOTIFICATIONS", "SLUICE_NOTIFICATIONS__WEBHOOK", "SLUICE_NOTIFICATIONS__SMTP_PASSWORD"),
    ],
)
def test_a_secret_setting_goes_to_the_file_and_so_does_a_section_with_one(name: str) -> None:
    assert not inherited.passes(name)
    assert inherited.secrets({name: "x", "PATH": "/"}) == {name: "x"}


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PGPASSWORD", "PGPASSFILE", "MYSQL_PWD", "SSH_AUTH_SOCK"),
        *("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_X", "SLUICE_UNKNOWN", "SLUICE_UNKNOWN__PASSWORD"),
        *("LD_PRELOAD", "BASH_ENV", "PYTHONSTARTUP", "PYTHONINSPECT", "HADOOP_CREDSTORE_PASSWORD", "LANGX"),
    ],
)
def test_what_no_list_names_does_not_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    assert name not in inherited.variables()


def test_a_setting_names_more_that_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_REGION", "north")
    monkeypatch.setenv("SLUICE_INHERIT", '["TEAM_REGION"]')
    get_settings.cache_clear()
    assert inherited.variables()["TEAM_REGION"] == "north"
    monkeypatch.delenv("SLUICE_INHERIT")
    get_settings.cache_clear()


@pytest.mark.slow
def test_a_detached_process_has_its_secrets_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_KAFKA__IDENTITY_KEY", "from the starter")
    monkeypatch.setenv("SOMEBODY_S_TOKEN", "not its business")
    code = (
        "import time; from sluice.runtime.settings import Settings; s = Settings();"
        "print(s.postgres.password, s.kafka.identity_key, s.spark.master, flush=True); time.sleep(60)"
    )
    given = {"SLUICE_POSTGRES__PASSWORD": "it's $odd", "SLUICE_SPARK__MASTER": "local[7]"}
    argv = [sys.executable, "-c", code]
    record = detached.start("job", argv, given, log=tmp_path / "log", run=tmp_path)
    try:
        until(lambda: "local[7]" in (tmp_path / "log").read_text(), what="it has read its settings")
        said = (tmp_path / "log").read_text().splitlines()[-1]
        assert said == "it's $odd from the starter local[7]"
        environment = Path(f"/proc/{record.pid}/environ").read_bytes()
        for secret in (b"odd", b"from the starter", b"not its business"):
            assert secret not in environment
        assert b"SLUICE_SPARK__MASTER=local[7]" in environment
        assert (tmp_path / "job.given").stat().st_mode & 0o777 == 0o600
        assert detached.names(tmp_path) == ["job"]
    finally:
        detached.stop(record, run=tmp_path)


def test_without_secrets_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "given"
    variables = inherited.separated({"SLUICE_POSTGRES__PASSWORD": "x"}, path)
    assert variables[given_secrets.NAMED] == str(path)
    monkeypatch.setenv(given_secrets.NAMED, str(path))
    inner = inherited.separated({"SLUICE_HIVE__PASSWORD": "y"}, tmp_path / "inner")
    assert given_secrets._read(Path(inner[given_secrets.NAMED])) == {
        "SLUICE_POSTGRES__PASSWORD": "x",
        "SLUICE_HIVE__PASSWORD": "y",
    }
    assert inherited.separated({}, tmp_path / "none")[given_secrets.NAMED] == str(path)
    assert not (tmp_path / "none").exists()


def test_a_library_that_passes_on_everything_passes_on_what_is_there_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_X", "secret")
    show = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    with inherited.alone({"PATH": "/bin"}):
        shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    assert "AIRFLOW_CONN_X" not in shown
    shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    assert "AIRFLOW_CONN_X" in shown

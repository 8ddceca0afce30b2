"""What a job that Airflow submits to Spark gets of Airflow's environment and connections."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

SUBMIT = """#!/usr/bin/python3
import json, os, sys
file = json.load(open(os.environ["SLUICE_SECRETS_FILE"]))
seen = {"environ": dict(os.environ), "argv": sys.argv, "file": file}
json.dump(seen, open(os.path.join(os.path.dirname(__file__), "seen"), "w"))
"""


@pytest.fixture
def seen(home: Path, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a stand-in for spark-submit saw."""
    from sluice.runtime.settings import get_settings
    from sluice_airflow.spark_job import SparkJob

    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "spark-submit").write_text(SUBMIT)
    (tools / "spark-submit").chmod(0o755)
    (home / "run").mkdir()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "a key of Airflow's")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "somebody's")
    monkeypatch.setenv("SLUICE_KAFKA__IDENTITY_KEY", "an identity key")
    connected("sluice_db", conn_type="postgres", host="p1", port=5432, login="u", password="changed by hand")
    connected("spark_default", conn_type="spark", host="local[2]", extra={"spark-binary": "spark-submit"})
    job = SparkJob(task_id="t", conn_id="spark_default", job="nightly")
    job.submit({}, get_settings(), "2026-01-01", ["--day", "2026-01-01"])
    return dict(json.loads((tools / "seen").read_text()))


def test_it_gets_its_secrets_in_a_file_and_nothing_of_airflow(seen: dict[str, Any], home: Path) -> None:
    environ = seen["environ"]
    assert not [name for name in environ if name.startswith(("AIRFLOW", "AWS"))]
    told = "\0".join([*environ.values(), *seen["argv"]])
    for secret in ("a key of Airflow's", "somebody's", "an identity key", "changed by hand"):
        assert secret not in told
    assert environ["SLUICE_POSTGRES__HOST"] == "p1"
    assert seen["file"]["SLUICE_POSTGRES__PASSWORD"] == "changed by hand"
    assert seen["file"]["SLUICE_KAFKA__IDENTITY_KEY"] == "an identity key"


def test_the_task_has_its_environment_afterwards_and_the_file_is_gone(
    seen: dict[str, Any], home: Path
) -> None:
    assert os.environ["AIRFLOW__CORE__FERNET_KEY"] == "a key of Airflow's"
    assert not list((home / "run").glob("*.given"))
    assert not Path(seen["environ"]["SLUICE_SECRETS_FILE"]).exists()

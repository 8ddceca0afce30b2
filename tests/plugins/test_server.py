"""Airflow's own API server over TLS, on a database of its own: the platform's clients, a task's, a page's."""

from __future__ import annotations

import configparser
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from sluice.runtime.settings import Settings, read_secret
from sluice.stack import health, secrets, tls
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.daemon import Unhealthy
from sluice.stack.daemons import airflow
from sluice.stack.environment import environment
from sluice_lab.ports import free_ports
from sluice_lab.waiting import SECONDS, until

pytestmark = pytest.mark.slow

TASK = """
from airflow.sdk.api.client import Client
from airflow.sdk.configuration import conf
print(Client(base_url=conf.get("core", "execution_api_server_url"), token="x").get("health").status_code)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    home = tmp_path_factory.mktemp("airflow")
    (port,) = free_ports(1)
    base = port - Settings(instance="test", home=home).port_offsets["airflow"]
    with pytest.MonkeyPatch.context() as given:
        given.setenv("SLUICE_INSTANCE", "test")
        own = {"HOME": str(home), "PORT_BASE": str(base), "NETWORK": "host", "TLS__MODE": "on"}
        for name, value in own.items():
            given.setenv(f"SLUICE_{name}", value)
        secrets.make(Settings())
        settings = Settings()
        tls.prepare_tls(settings)
        airflow.prepare_home(settings)
        config, file = (
            configparser.ConfigParser(interpolation=None),
            home / "conf" / "airflow" / "airflow.cfg",
        )
        config.read(file)
        config.set("database", "sql_alchemy_conn", f"sqlite:///{home}/airflow.db")
        with file.open("w") as out:
            config.write(out)
        variables = environment(settings)
    with (home / "log").open("wb") as log:
        subprocess.run([airflow.AIRFLOW, "db", "migrate"], env=variables, stdout=log, stderr=log, check=True)
        command = airflow.API.command(settings)
        process = subprocess.Popen(command.argv, env=variables, stdout=log, stderr=log)
        try:
            until(lambda: process.poll() is not None or answers(settings), 2 * SECONDS)
            assert process.poll() is None, (home / "log").read_text()[-3000:]
            yield settings
        finally:
            process.terminate()
            process.wait(60)


def answers(settings: Settings) -> bool:
    with suppress(Unhealthy):
        health.airflow(settings, "metadatabase")
        return True
    return False


@pytest.fixture
def browser(server: Settings) -> Iterator[httpx.Client]:
    context = ssl.create_default_context(cafile=server.airflow.root_certificate)
    with httpx.Client(base_url=server.airflow.url, verify=context, trust_env=False, timeout=120) as client:
        yield client


def test_the_platform_s_own_clients_check_the_certificate(server: Settings, tmp_path: Path) -> None:
    from sluice.runtime import authority

    with Airflow(server) as client:
        assert client.connections() == {}
    foreign = tmp_path / "foreign.crt"
    foreign.write_bytes(authority.certificate(tmp_path))
    other = server.airflow.model_copy(update={"root_certificate": str(foreign)})
    with pytest.raises(Unhealthy, match="certificate verify failed"):
        health.airflow(server.model_copy(update={"airflow": other}), "metadatabase")


def test_a_task_s_client_checks_it_by_the_authority(server: Settings) -> None:
    with pytest.MonkeyPatch.context() as given:
        given.setenv("SLUICE_INSTANCE", "test")
        given.setenv("SLUICE_HOME", str(server.home))
        variables = environment(server)
    done = subprocess.run(
        [sys.executable, "-c", TASK],
        env=variables,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert done.stdout.splitlines()[-1] == "200"


def test_a_log_in_is_kept_in_a_cookie_of_this_server_alone(server: Settings, browser: httpx.Client) -> None:
    own, plain = server.airflow.url, server.airflow.url.replace("https:", "http:")
    login = {"username": "admin", "password": read_secret(server.home, "airflow_admin")}
    page = {"Sec-Fetch-Site": "same-origin"}
    answer = browser.post("/auth/token", json=login, headers={"Origin": own, **page})
    assert answer.status_code == 201
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-_token=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    change = {"is_paused": True}
    of_plain = browser.patch("/api/v2/dags/none", json=change, headers={"Origin": plain, **page})
    assert of_plain.status_code == 403
    assert browser.patch("/api/v2/dags/none", json=change, headers={"Origin": own, **page}).status_code == 404
    assert "strict-transport-security" not in answer.headers


def test_plain_http_is_told(server: Settings) -> None:
    plain = server.airflow.url.replace("https:", "http:")
    answer = httpx.get(f"{plain}/api/v2/version", trust_env=False, timeout=20)
    assert (answer.status_code, answer.text.partition(":")[0]) == (400, "This port speaks TLS")

"""The platform in containers, from empty volumes to a restored backup: ``make test-containers``.

The tests run in this order, each on what the one before it left.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.runtime.sections import Hive
from sluice.storage.hive import connect
from tests.containers import platform
from tests.containers.platform import CHECKED, FOR_EVER, HERE, SERVICES, sluice
from tests.containers.podman import container, environment, inside, podman, volumes

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

MIB = 1 << 20
KILLS = 5
#: What the audit counts that stays when agents end: they send again what they cannot know to have arrived.
STAY = ("lines_read", "online", "hive_unique", "dead_lettered", "lost")
#: Lines that are written while containers die, and how fast: the kills fall into the middle.
LINES, RATE = 6_000, 100
STOP = ("-t", "90")

Figures = dict[str, float]


@pytest.fixture(scope="module", autouse=True)
def project(image: dict[str, Any]) -> Iterator[None]:
    """Nothing of an earlier run is there at the begin, and nothing of this one at the end."""
    platform.remove()
    yield
    platform.remove()


def counts() -> dict[str, int]:
    found = platform.hops()["counts"]
    return {name: found[name] for name in STAY}


def test_every_service_becomes_healthy_and_is_filled(figures: Figures) -> None:
    figures["up with empty volumes, until healthy and filled, s"] = platform.up()


@pytest.mark.parametrize("service", FOR_EVER)
def test_a_service_has_no_right_that_it_does_not_need(service: str) -> None:
    found = json.loads(podman("inspect", container(service)))[0]
    status = inside(service, "cat", "/proc/self/status")
    rights = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {rights[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    assert rights["NoNewPrivs"] == "1"
    assert "0" not in rights["Uid"].split()
    assert found["HostConfig"]["ReadonlyRootfs"]
    ports = (found["NetworkSettings"]["Ports"] or {}).values()
    published = [port["HostIp"] for each in ports for port in each or []]
    assert published == (["127.0.0.1"] if "ports" in SERVICES[service] else [])


def test_the_main_job_agrees(figures: Figures) -> None:
    job = Path(__file__).with_name("job.py").read_bytes()
    began = time.monotonic()
    said = inside("airflow-scheduler", "python", "-", given=job)
    figures["the demo's job, s"] = time.monotonic() - began
    assert json.loads(said.splitlines()[-1])["agrees"], said[-6000:]
    used = {service: platform.memory_bytes(service) for service in FOR_EVER}
    figures.update({f"memory after the job, {name}, MiB": used[name] / MIB for name in FOR_EVER})
    figures["memory after the job, together, MiB"] = sum(used.values()) / MIB


def test_the_sql_endpoint_answers_on_the_host() -> None:
    password = inside(HERE, "cat", "var/main/secrets/sql").strip()
    with connect(Hive(host="127.0.0.1", port=21070, password=password), 60) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM sluice.logs")
        assert cursor.fetchall()[0][0] > 0


def test_airflow_s_pages_answer_on_the_host() -> None:
    password = inside("airflow-api", "cat", "var/main/secrets/airflow_admin").strip()
    with httpx.Client(base_url="http://127.0.0.1:21080", timeout=60, trust_env=False) as client:
        assert client.get("/").status_code == 200
        given = {"username": "admin", "password": password}
        answer = client.post("/auth/token", json=given)
        assert answer.status_code == 201, answer.text
        bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        page = client.get("/sluice/console", headers=bearer, follow_redirects=True)
        assert page.status_code == 200, page.text[:500]


def test_no_line_is_lost_when_containers_are_killed(figures: Figures) -> None:
    """SIGKILL to whole containers while lines come; what died is started again by its policy."""
    before = platform.hops()["counts"]["lines_read"]
    sluice("generate", "--lines", str(LINES), "--seed", "7", "-o", "/tmp/more.log")
    write = ["podman", "exec", container(HERE), "sluice", "replay", "/tmp/more.log", "--rate", str(RATE)]
    chance = random.Random()  # noqa: S311 - the victims are printed
    victims = chance.sample(CHECKED, KILLS)
    print(f"killed: {', '.join(victims)}")
    with subprocess.Popen(write, env=environment(), stdin=subprocess.DEVNULL) as writing:
        for victim in victims:
            platform.kill(victim)
            time.sleep(chance.uniform(0, 2 * LINES / RATE / KILLS / 2))
        assert writing.wait(platform.SETTLE_SECONDS) == 0
    figures[f"healthy again after {KILLS} kills, s"] = platform.wait_healthy()
    platform.wait_counted(before + LINES)


def test_the_data_is_there_after_down_and_up(figures: Figures) -> None:
    before = counts()
    figures["down, s"] = platform.down(*STOP)
    figures["up with full volumes, until healthy, s"] = platform.up()
    platform.wait_counted(before["lines_read"])
    assert counts() == before


def test_a_backup_of_the_volumes_brings_the_data_back(figures: Figures, tmp_path: Path) -> None:
    before = counts()
    platform.down(*STOP)
    began = time.monotonic()
    volumes("save", tmp_path)
    figures["backup, s"] = time.monotonic() - began
    figures["backup, MB"] = sum(file.stat().st_size for file in tmp_path.iterdir()) / 1e6
    platform.remove()
    began = time.monotonic()
    volumes("load", tmp_path)
    figures["restore, s"] = time.monotonic() - began
    platform.up()
    platform.wait_counted(before["lines_read"])
    assert counts() == before

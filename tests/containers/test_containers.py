"""The platform in containers, from the image to a restored backup: ``make test-containers``.

The tests run in this order, each on what the one before it left. Their figures go to var/containers.json.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from sluice.runtime.settings import ROOT, Hive
from sluice.stack.memory import proportional_bytes
from sluice.storage.hive import connect
from tests.containers import base
from tests.containers.podman import BASE, IMAGE, compose, container, environment, inside, podman

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
CHECKED = [name for name, service in SERVICES.items() if "healthcheck" in service]
#: The services that run for ever; `initialise` ends.
FOR_EVER = [name for name in SERVICES if name != "initialise"]
FIGURES = ROOT / "var" / "containers.json"
IMAGE_BYTES = 2_000_000_000
HEALTHY_SECONDS = 900.0
SETTLE_SECONDS = 900.0
POLL_SECONDS = 3.0
KILLS = 5
#: Lines that are written while containers die, and how fast: the kills fall into the middle.
LINES, RATE = 6_000, 100
MIB = 1 << 20
STRIPPED = (
    *(
        "asyncpg",
        "cryptography.fernet",
        "great_expectations",
        "grpc",
        "lz4.frame",
        "numba",
        "pandas",
        "polars",
    ),
    *("polars", "psycopg2", "pyarrow.dataset", "scipy.sparse.linalg", "uvloop", "zstandard"),
)

figures: dict[str, float] = {}


@pytest.fixture(scope="module", autouse=True)
def project() -> Iterator[None]:
    """Nothing of an earlier run is there at the begin, and nothing of this one at the end."""
    _remove()
    yield
    _remove()
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    print("\n" + "\n".join(f"{name:<40} {value:>14,.1f}" for name, value in figures.items()))


def _remove() -> None:
    with suppress(AssertionError):
        compose("down", "-v", "-t", "5")


def until(done: Callable[[], bool], seconds: float, what: Callable[[], object]) -> float:
    """Wait for it and return how many seconds it took; ``what`` says what is missing if it never comes."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < seconds, f"not within {seconds:.0f} s: {what()}"
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def unhealthy() -> dict[str, str]:
    """What each service lacks that is not healthy, by the check of the compose file itself."""
    found = {}
    for service in CHECKED:
        command = SERVICES[service]["healthcheck"]["test"][1:]
        said = inside(service, *command, check=False).strip()
        if not said.endswith(": healthy"):
            found[service] = said or "it does not run"
    return found


def wait_healthy(seconds: float = HEALTHY_SECONDS) -> float:
    return until(lambda: not unhealthy(), seconds, unhealthy)


def hops() -> dict[str, Any]:
    """The audit's hops, read in a container that is not killed."""
    said = inside("watch", "sluice", "audit", "--format", "json", check=False)
    with suppress(ValueError):
        return dict(json.loads(said))
    return {"error": said[-500:]}


def wait_counted(lines: int) -> None:
    """Wait until all the lines are counted once and archived, and nothing is on its way but to Hive."""

    def counted() -> bool:
        found = hops()
        counts = found.get("counts", {})
        whole = counts.get("lines_read") == counts.get("online") == lines and not counts.get("lost")
        return whole and not [on for on in found["in_flight"] if "nightly_batch" not in on]

    until(counted, SETTLE_SECONDS, hops)


def build(tag: str) -> float:
    """Build the image from nothing, and return the seconds."""
    began = time.monotonic()
    options = ("--network=host", f"--timestamp={base.LONG_AGO}", "--no-cache", f"--build-arg=BASE={BASE}")
    podman("build", "-q", *options, "-f", "docker/Dockerfile", "-t", tag, ".", seconds=3000)
    return time.monotonic() - began


def test_the_image_is_small_and_built_twice_it_is_the_same() -> None:
    base.ensure()
    figures["image: seconds to build"] = build(IMAGE)
    build(f"{IMAGE}-again")
    first, again = (json.loads(podman("image", "inspect", name))[0] for name in (IMAGE, f"{IMAGE}-again"))
    figures["image: MB"] = first["Size"] / 1e6
    assert first["Size"] <= IMAGE_BYTES
    assert first["RootFS"]["Layers"] == again["RootFS"]["Layers"]
    assert first["Id"] == again["Id"]
    assert first["Config"]["User"] not in ("", "root", "0")


def test_it_has_a_java_runtime_and_nothing_to_build_or_test_with() -> None:
    def has(command: str) -> bool:
        shell = ("sh", "-c", f"{command} >&2 && echo yes")
        return podman("run", "--rm", "--network=none", IMAGE, *shell, check=False).strip() == "yes"

    assert has("java -version")
    # Each loads libraries that were stripped, or whose neighbours were deleted.
    for module in STRIPPED:
        assert has(f"python -c 'import {module}'"), module
    for absent in ("command -v javac", "command -v mvn", "python -c 'import pytest'", "touch /opt/sluice/x"):
        assert not has(absent), absent


def test_every_service_becomes_healthy() -> None:
    began = time.monotonic()
    compose("up", "-d", "--no-build")
    wait_healthy()
    until(filled, HEALTHY_SECONDS, lambda: podman("logs", "--tail", "20", container("initialise")))
    figures["up, empty volumes: seconds until healthy and filled"] = time.monotonic() - began


def filled() -> bool:
    """Whether `initialise` came to its end."""
    found = state("initialise")
    return not found["Running"] and found["ExitCode"] == 0


def state(service: str) -> dict[str, Any]:
    return dict(json.loads(podman("inspect", container(service)))[0]["State"])


@pytest.mark.parametrize("service", FOR_EVER)
def test_a_service_has_no_right_that_it_does_not_need(service: str) -> None:
    found = json.loads(podman("inspect", container(service)))[0]
    status = inside(service, "cat", "/proc/self/status")
    rights = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {rights[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    assert rights["NoNewPrivs"] == "1"
    assert "0" not in rights["Uid"].split()
    assert found["HostConfig"]["ReadonlyRootfs"]
    ports = found["NetworkSettings"]["Ports"].values()
    published = [port["HostIp"] for each in ports for port in each or []]
    assert published == (["127.0.0.1"] if service in ("sql", "airflow-api") else [])


def test_the_main_job_agrees() -> None:
    job = Path(__file__).with_name("job.py").read_bytes()
    began = time.monotonic()
    said = inside("airflow-scheduler", "python", "-", given=job)
    figures["the demo's job: seconds"] = time.monotonic() - began
    assert json.loads(said.splitlines()[-1])["agrees"], said[-6000:]
    used = {service: memory_bytes(service) for service in FOR_EVER}
    figures.update({f"memory after the job, {name}: MiB": used[name] / MIB for name in FOR_EVER})
    figures["memory after the job: MiB"] = sum(used.values()) / MIB


def memory_bytes(service: str) -> int:
    """The memory (PSS) of the container's processes, jobs and agents among them."""
    first = psutil.Process(state(service)["Pid"])
    return sum(proportional_bytes(process.pid) for process in (first, *first.children(recursive=True)))


def test_the_sql_endpoint_answers_on_the_host() -> None:
    hive = Hive(host="127.0.0.1", port=21070, password=inside("watch", "cat", "var/main/secrets/sql"))
    with connect(hive, 60) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM sluice.logs")
        assert cursor.fetchall()[0][0] > 0


def test_airflow_s_page_answers_on_the_host() -> None:
    password = inside("airflow-api", "cat", "var/main/secrets/airflow_admin")
    with httpx.Client(base_url="http://127.0.0.1:21080", timeout=60, trust_env=False) as client:
        assert client.get("/").status_code == 200
        token = client.post("/auth/token", json={"username": "admin", "password": password}).json()
        bearer = {"Authorization": f"Bearer {token['access_token']}"}
        assert client.get("/sluice/console", headers=bearer, follow_redirects=True).status_code == 200


def test_no_line_is_lost_when_containers_are_killed() -> None:
    """SIGKILL to whole containers while lines come; what died is started again by its policy."""
    before = hops()["counts"]["online"]
    inside("watch", "sluice", "generate", "--lines", str(LINES), "--seed", "7", "-o", "/tmp/more.log")
    write = ["podman", "exec", container("watch"), "sluice", "replay", "/tmp/more.log", "--rate", str(RATE)]
    chance = random.Random()  # noqa: S311
    victims = chance.sample([name for name in CHECKED if "pid" not in SERVICES[name]], KILLS)
    print(f"killed: {', '.join(victims)}")
    with subprocess.Popen(write, env=environment(), stdin=subprocess.DEVNULL) as writing:
        for victim in victims:
            kill(victim)
            time.sleep(chance.uniform(0, 2 * LINES / RATE / KILLS / 2))
        assert writing.wait(SETTLE_SECONDS) == 0
    figures["after 5 kills: seconds until healthy"] = wait_healthy()
    wait_counted(before + LINES)


def kill(service: str) -> None:
    """Kill the container's first process, and so all of them, as the kernel would for lack of memory."""
    pid = int(state(service)["Pid"])
    subprocess.run(["kill", "-KILL", str(pid)], check=True)


def test_the_data_is_there_after_down_and_up() -> None:
    before = hops()["counts"]
    began = time.monotonic()
    compose("down", "-t", "90")
    figures["down: seconds"] = time.monotonic() - began
    began = time.monotonic()
    compose("up", "-d", "--no-build")
    wait_healthy()
    figures["up, full volumes: seconds until healthy"] = time.monotonic() - began
    wait_counted(before["online"])


def test_a_backup_of_the_volumes_brings_the_data_back(tmp_path: Path) -> None:
    before = hops()["counts"]
    compose("down", "-t", "90")
    began = time.monotonic()
    volumes("save", tmp_path)
    figures["backup: seconds"] = time.monotonic() - began
    figures["backup: MB"] = sum(file.stat().st_size for file in tmp_path.iterdir()) / 1e6
    compose("down", "-v")
    began = time.monotonic()
    volumes("load", tmp_path)
    figures["restore: seconds"] = time.monotonic() - began
    compose("up", "-d", "--no-build")
    wait_healthy()
    wait_counted(before["online"])
    after = hops()["counts"]
    assert {name: after[name] for name in ("hive_raw", "hive_unique")} == {
        name: before[name] for name in ("hive_raw", "hive_unique")
    }


def volumes(what: str, folder: Path) -> None:
    done = subprocess.run(
        [str(ROOT / "docker" / "volumes.sh"), what, str(folder)],
        env={**environment(), "ENGINE": "podman"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

"""Which process has which secret: what the kernel shows of each, against the table in docs/security.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sluice.runtime import detached, given_secrets
from sluice.runtime.settings import ROOT, Settings
from sluice.stack import supervisord
from sluice.stack.catalogue import DAEMONS
from sluice.stack.networking import network
from sluice_lab.waiting import until
from tests.bring_up import DECOY, FOR_AIRFLOW

pytestmark = pytest.mark.stack

MARK = "<!-- secrets: checked by tests/security/test_secrets_by_process.py -->"
NONE = "none"
#: Jobs that run for ever, each with processes of Spark and of Python.
JOBS = ("speed_layer", "archiver")
HASHES = re.compile(r"[0-9a-f]{32,}")


def listed() -> dict[str, str]:
    """The rows of the page's table: what each process has in its environment."""
    text = (ROOT / "docs" / "security.md").read_text()
    rows = {}
    for line in text[text.index(MARK) :].splitlines()[3:]:
        if not line.startswith("|"):
            break
        names, environment = [cell.strip() for cell in line.strip("|").split("|")][:2]
        rows |= dict.fromkeys(re.findall(r"`([^`]+)`", names), environment)
    return rows


@pytest.fixture(scope="module")
def processes(stack: Settings) -> dict[str, list[psutil.Process]]:
    """All processes of the instance, by what the page calls them."""
    run = stack.home / "run"
    until(lambda: all(detached.alive(detached.read(job, run)) for job in JOBS), what="the jobs run")
    found = {"supervisord": [psutil.Process(supervisord.pid(stack))]}
    for name, program in supervisord.programs(stack).items():
        found[name] = list(with_children(program.pid))
    gateway = detached.read(network.GATEWAY, network.folder(stack))
    if gateway is not None and detached.alive(gateway):
        found["gateway"] = list(with_children(gateway.pid))
    for name in detached.names(run):
        record = detached.read(name, run)
        if record is not None and detached.alive(record):
            found.setdefault(name.partition("-")[0], []).extend(with_children(record.pid))
    return found


def with_children(pid: int) -> Iterator[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        yield from (process, *process.children(recursive=True))


def shown(process: psutil.Process) -> tuple[str, str]:
    """The environment and the command line, as the kernel shows them; empty for one that has ended."""
    try:
        folder = Path(f"/proc/{process.pid}")
        return tuple((folder / name).read_bytes().decode(errors="replace") for name in ("environ", "cmdline"))  # type: ignore[return-value]
    except OSError:
        return "", ""


def secrets(settings: Settings) -> dict[str, str]:
    """The instance's secrets by their values, and where each is."""
    found = {}
    for path in (settings.home / "secrets").iterdir():
        text = path.read_text().strip()
        if path == given_secrets.file(settings.home):
            given = json.loads(text).items()  # options of Airflow's are no secrets
            found |= {value: name for name, value in given if not name.startswith("AIRFLOW__")}
        elif path.suffix == ".json":
            found |= dict.fromkeys(HASHES.findall(text), path.name)
        elif text:
            found[text] = path.name
    return found


def test_no_process_shows_a_secret_that_the_page_does_not_name(
    stack: Settings, processes: dict[str, list[psutil.Process]]
) -> None:
    known, page, seen = secrets(stack), listed(), 0
    assert {"postgres", "postgres_airflow", "sql", "identity", "airflow_jwt"} <= set(known.values())
    for name, members in processes.items():
        for process in members:
            environment, command = shown(process)
            seen += bool(environment)
            there = {where for value, where in known.items() if value in environment}
            allowed = {where for where in there if where.startswith("AIRFLOW_") and "AIRFLOW_" in page[name]}
            assert there - allowed == set(), f"{name}: {process}"
            assert not {where for value, where in known.items() if value in command}, f"{name}: {process}"
    assert seen > len(DAEMONS)


def test_the_page_names_every_process(processes: dict[str, list[psutil.Process]]) -> None:
    page = listed()
    assert set(processes) - set(page) == set()
    assert set(DAEMONS) <= set(page)
    assert {name for name, environment in page.items() if "AIRFLOW_" in environment} == {
        name for name in DAEMONS if name.startswith("airflow-")
    }


def test_nothing_of_the_starter_s_environment_passes_but_what_is_listed(
    processes: dict[str, list[psutil.Process]],
) -> None:
    """`tests.bring_up` had the decoy in its environment when it started the instance."""
    members = [process for each in processes.values() for process in each]
    assert not [process for process in members if DECOY in shown(process)[0]]


def test_a_connection_for_airflow_gets_to_airflow_alone(
    processes: dict[str, list[psutil.Process]],
) -> None:
    """The API server's title lies over its environment, which nobody can read then."""
    has = {
        daemon
        for daemon, members in processes.items()
        for process in members[:1]
        if FOR_AIRFLOW in shown(process)[0]
    }
    airflow = {daemon for daemon in DAEMONS if daemon.startswith("airflow-")}
    assert airflow - {"airflow-api"} <= has <= airflow

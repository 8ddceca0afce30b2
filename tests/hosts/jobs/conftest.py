"""An instance with one other host that may have jobs, and jobs that need no daemon."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime import detached
from sluice.runtime.files import write_whole
from sluice.runtime.settings import ROOT, Settings, get_settings
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.hosts import Host
from sluice_hosts.jobs import places
from sluice_hosts.links import ssh
from sluice_hosts.trust import broker, enrolment
from tests.hosts.conftest import JAVA
from tests.hosts.one_host import emulated

#: An archiver, or a driver. It says what it was given, writes its progress, and ends in an orderly way when
#: it is told to.
JOB = """
import json, os, signal, sys, time
from pathlib import Path
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
print("began with", *sys.argv[1:], flush=True)
if "--progress" in sys.argv:
    progress = {"pid": os.getpid(), "state": "running", "updated_at": 1.0, "topics": {}}
    Path(sys.argv[sys.argv.index("--progress") + 1]).write_text(json.dumps(progress))
while not stopped:
    time.sleep(0.02)
print("ended in order", flush=True)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small checkout: the platform's, and the release of the host."""
    made = tmp_path / "root"
    for folder in ("include/sluice", "jobs", ".venv/bin"):
        (made / folder).mkdir(parents=True)
    shutil.copy(ROOT / "include" / "settings.yaml", made / "include")
    shutil.copy(ROOT / "jobs" / "shadow.py", made / "jobs")
    for job in places.JOBS:
        (made / "jobs" / f"{job}.py").write_text(JOB)
    python = made / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] || exec {sys.executable} "$@"\n')  # imports take long
    python.chmod(0o755)
    return made


@pytest.fixture
def settings(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True)
    for name, value in (("ROOT", root), ("HOME", home), ("INSTANCE", "test"), ("PORT_BASE", 29_000)):
        monkeypatch.setenv(f"SLUICE_{name}", str(value))  # a shadow and commands read them
    get_settings.cache_clear()
    yield Settings(instance="test", home=home, root=root, port_base=29_000)
    for name in detached.names(home / "run"):
        if record := detached.read(name, home / "run"):
            detached.stop(record, 15, run=home / "run")
    get_settings.cache_clear()


@pytest.fixture
def machine(settings: Settings, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedHost]:
    """h1, enrolled, with the role."""
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)
    with emulated(settings, settings.home.parent / "h1") as made:
        made.program("java", JAVA)
        path = settings.home / hosts.FILE
        write_whole(path, path.read_text().replace("ssh:", f"roles: [jobs], release: {root}, ssh:"))
        found = hosts.load(settings)["h1"]
        enrolment.enrol(settings, found, ssh.host_key(found.address, made.port)[1])
        broker.record(settings, "h1", [broker.ALL])  # Kafka, which is not there, knows the host
        yield made


@pytest.fixture
def host(settings: Settings, machine: EmulatedHost) -> Host:
    return hosts.load(settings)["h1"]

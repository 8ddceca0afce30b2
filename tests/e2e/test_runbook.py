"""The runbook's commands and statements do on the running platform what the page promises."""

from __future__ import annotations

import datetime as dt
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.runtime import detached
from sluice.runtime.settings import ROOT
from sluice.storage.postgres import engine
from sluice.storage.tables.days import Days
from sluice_lab.access_lines import access_lines
from sluice_lab.waiting import until
from tests.docs.test_docs import text_of
from tests.e2e.running import COMMAND_SECONDS, TOPIC, Platform, expected

pytestmark = pytest.mark.e2e

PAGE = text_of("docs/runbook.md")
DAY = dt.date(2015, 5, 17)
#: These would let the test's instance send its alerts elsewhere; tests/stack/test_notify.py covers them.
OUTSIDE = ("export ", "sluice up")


def commands() -> list[str]:
    """What the page's consoles show behind the prompt, and its statements for Hive."""
    shown = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    typed = [
        command for block in shown for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)
    ]
    spans = [" ".join(span.split()) for span in re.findall(r"`(sluice sql [^`]+)`", PAGE)]
    return [each for each in (*typed, *spans) if not each.startswith(OUTSIDE)]


def statements() -> list[str]:
    """The page's statements for PostgreSQL."""
    blocks = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    spans = [" ".join(span.split()) for span in re.findall(r"`(SELECT [^`]+)`", PAGE)]
    return [each.strip() for block in blocks for each in block.split(";") if each.strip()] + spans


@pytest.fixture(scope="module")
def filled(platform: Platform) -> Platform:
    """The platform with lines of the days that the page names, all counted and archived."""
    platform.write(DAY, access_lines(DAY, 200))
    platform.drain()
    return platform


def run(platform: Platform, command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    place = {**os.environ, "PATH": path, "SLUICE_INSTANCE": platform.settings.instance}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=place,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


def test_the_page_names_commands() -> None:
    assert any(each.startswith("sluice nightly ") for each in commands())
    assert len(commands()) >= 9
    assert len(statements()) >= 4


@pytest.mark.parametrize("command", commands())
def test_a_command_runs_as_it_is_written(filled: Platform, command: str) -> None:
    filled.drain()
    done = run(filled, command)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    if command.startswith("sluice nightly"):
        assert f"{DAY} {TOPIC}: agrees" in done.stdout
        entry = Days(engine(filled.settings), TOPIC).get(DAY)
        assert entry is not None
        assert entry.is_final
        wanted = expected(filled.written[DAY])["hits_by_status"]
        assert filled.counted("hits_by_status", DAY, "offline").values == wanted


@pytest.mark.parametrize("job", ["speed_layer", "archiver"])
def test_a_job_says_where_its_threads_are_and_goes_on(platform: Platform, job: str) -> None:
    record, log = platform.job(job), platform.settings.home / "logs" / f"{job}.log"
    os.kill(record.pid, signal.SIGUSR1)
    until(lambda: "(most recent call last)" in log.read_text())
    assert detached.alive(record)


@pytest.mark.parametrize("statement", statements())
def test_a_statement_runs_as_it_is_written(filled: Platform, statement: str) -> None:
    with engine(filled.settings).connect() as connection:
        connection.execute(sa.text(statement))

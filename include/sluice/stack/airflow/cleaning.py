"""Keeps Airflow's own books small: what is old goes from its database, and the logs of its tasks.

Airflow's own command does it. By itself it would also delete a task that has run for longer than the time:
each of the jobs that run for ever has such a task. So a DAG with an unfinished run that began before the time
keeps all of its runs, until a run of it is younger. The last scheduled run of each DAG stays in any case, so
Airflow knows when the next one is due. Triggers are left alone: Airflow deletes those that no task waits for.
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg2

from sluice.runtime.settings import Settings
from sluice.stack.airflow.configuration import write_config
from sluice.stack.daemons.airflow import AIRFLOW
from sluice.stack.environment import environment

#: Tables with runs, which the command can be told to spare by DAG. It also cleans what hangs on them.
RUNS = ("dag_run", "dag_version")
#: Tables with what happened, and of processes that are gone.
EVENTS = ("asset_event", "callback", "import_error", "job", "log", "revoked_token")
#: Hangs on runs, has no DAG to spare, and is cleaned with EVENTS.
UNSPARED = frozenset({"deadline"})
ROWS_A_TRANSACTION = 10_000
SECONDS = 1_800.0

_NOT_CLEANED = re.compile(r"not cleaned due to errors: \[([^\]]*)\]")
_UNFINISHED = "SELECT DISTINCT dag_id FROM dag_run WHERE state IN ('running', 'queued') AND start_date < %s"

log = logging.getLogger(__name__)


class NotCleaned(RuntimeError):
    """Airflow's command did not clean its database."""


def clean(settings: Settings, before: datetime) -> list[str]:
    """Delete what is older; returns what was done, a line each. Raises NotCleaned."""
    write_config(settings)
    spared = unfinished(settings, before)
    for tables, but in ((RUNS, spared), (EVENTS, [])):
        _run(arguments(tables, before, but), environment(settings))
    files = delete_logs(settings.home / "airflow" / "logs", before, spared)
    kept = f" but those of {', '.join(spared)}" if spared else ""
    return [
        f"runs and events of Airflow before {before:%Y-%m-%d} deleted{kept}",
        f"{files} task logs deleted",
    ]


def unfinished(settings: Settings, before: datetime) -> list[str]:
    """The DAGs with an unfinished run that began before then, in order."""
    own = settings.postgres.of(settings.postgres.airflow)
    connection = psycopg2.connect(own.url("postgresql"))
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(_UNFINISHED, (before,))
            return sorted(row[0] for row in cursor.fetchall())
    finally:
        connection.close()


def arguments(tables: Sequence[str], before: datetime, spared: Sequence[str]) -> list[str]:
    """The command that deletes from these tables without asking, and keeps no copies."""
    command = [AIRFLOW, "db", "clean", "--yes", "--skip-archive", "--tables", ",".join(tables)]
    command += ["--clean-before-timestamp", before.isoformat(), "--batch-size", str(ROWS_A_TRANSACTION)]
    return [*command, "--exclude-dag-ids", ",".join(spared)] if spared else command


def _run(command: Sequence[str], variables: dict[str, str]) -> None:
    plain = {name: value for name, value in variables.items() if name != "FORCE_COLOR"}
    options: dict[str, Any] = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(command, env=plain, timeout=SECONDS, check=False, **options)
    except subprocess.TimeoutExpired as error:
        raise NotCleaned(
            f"`airflow db clean` did not end within {SECONDS:g} s: the next run goes on where it stopped"
        ) from error
    said = done.stdout + done.stderr
    left = set(re.findall(r"\w+", " ".join(_NOT_CLEANED.findall(said)))) - UNSPARED
    if done.returncode or left:
        last = (done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["no answer"])[-1]
        of = f" ({', '.join(sorted(left))})" if left else ""
        raise NotCleaned(f"`airflow db clean` failed{of}: {last[:300]}. See `sluice status` for PostgreSQL")


def delete_logs(folder: Path, before: datetime, spared: Collection[str]) -> int:
    """Delete the files in which nothing was written since then, and empty folders; returns how many files.

    The logs of the spared DAGs' tasks stay, because a task may write to them.
    """
    kept, gone, moment = {f"dag_id={name}" for name in spared}, 0, before.timestamp()
    # A folder that is young and empty gets its file in this moment. One that is emptied here becomes young.
    old = [path for path in folder.rglob("*") if _written(path) < moment]
    for path in sorted(old, reverse=True):  # what is in a folder comes before it
        if kept.intersection(path.relative_to(folder).parts):
            continue
        try:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
                gone += 1
        except OSError as error:  # a folder with files, or somebody else deleted it
            log.debug("%s stays: %s", path, error)
    return gone


def _written(path: Path) -> float:
    """When it was written last; never, if it is gone."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")

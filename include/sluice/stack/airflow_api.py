"""What a person does in Airflow's UI, for the demo and the tests: REST API v2, logged in as the admin."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Any, Self

from sluice.runtime.settings import Settings
from sluice.stack.airflow_http import AirflowError, AirflowHttp

FINISHED = frozenset({"success", "failed"})
POLL_SECONDS = 1.0
PAGE = 100  # the API's own limit
CONFLICT = 409


class AirflowTimeout(TimeoutError):
    """What was waited for did not come in time; the message says what there is instead."""


@dataclass(frozen=True)
class Run:
    """One run of a DAG."""

    dag: str
    id: str
    state: str
    kind: str  # scheduled, manual, backfill, asset_triggered
    day: date | None  # on which its data interval starts
    started: datetime | None
    ended: datetime | None

    @property
    def finished(self) -> bool:
        return self.state in FINISHED


class Airflow:
    """A client of one instance's Airflow. Close it, or use it as a context manager."""

    def __init__(self, settings: Settings) -> None:
        self._http = AirflowHttp(settings)
        self._request = self._http.request
        self.token = self._http.token

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def unpause(self, dag: str) -> None:
        self._request("PATCH", f"dags/{dag}", json={"is_paused": False})

    def pause(self, dag: str) -> None:
        """No new runs; the one that runs goes on."""
        self._request("PATCH", f"dags/{dag}", json={"is_paused": True})

    def trigger(self, dag: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run by hand; its id."""
        body = {"logical_date": datetime.now(UTC).isoformat(), "conf": dict(conf or {})}
        return str(self._request("POST", f"dags/{dag}/dagRuns", json=body)["dag_run_id"])

    def backfill(
        self, dag: str, first: date, last: date, *, max_active_runs: int = 2, timeout: float = 600.0
    ) -> int:
        """A run for each day from ``first`` to ``last``, both included, done or not; the backfill's id.

        Airflow allows one backfill of a DAG at a time: waits for another one to end. Raises AirflowTimeout.
        """
        body = {
            "dag_id": dag,
            "from_date": f"{first}T00:00:00Z",
            "to_date": f"{last}T00:00:00Z",
            "reprocess_behavior": "completed",
            "max_active_runs": max_active_runs,
        }
        deadline = time.monotonic() + timeout
        while True:
            try:
                return int(self._request("POST", "backfills", json=body)["id"])
            except AirflowError as error:
                if error.status != CONFLICT:
                    raise
                if time.monotonic() > deadline:
                    raise AirflowTimeout(f"another backfill of {dag} does not end: cancel it") from error
            time.sleep(POLL_SECONDS)

    def wait_backfill(self, number: int, timeout: float) -> list[Run]:
        """The backfill's runs, once all have finished. Raises AirflowTimeout."""

        def runs() -> list[Run] | None:
            backfill = self._request("GET", f"backfills/{number}")
            found = [
                run
                for run in self.runs(backfill["dag_id"], kind="backfill")
                if run.day
                and _day(backfill["from_date"]) <= run.day <= _day(backfill["to_date"])
                and (run.ended is None or run.ended >= _moment(backfill["created_at"]))
            ]
            # Airflow itself marks a backfill completed up to half a minute after its last run.
            return found if found and all(run.finished for run in found) else None

        return self._wait(runs, timeout, f"backfill {number}")

    def runs(self, dag: str, *, kind: str | None = None, since: datetime | None = None) -> list[Run]:
        """The DAG's runs, the newest first; those made since a moment."""
        query: dict[str, Any] = {"limit": PAGE, "order_by": "-id"}
        if kind:
            query["run_type"] = kind
        if since:
            query["run_after_gte"] = since.isoformat()
        return [_run(each) for each in self._request("GET", f"dags/{dag}/dagRuns", params=query)["dag_runs"]]

    def run(self, dag: str, run: str) -> Run:
        return _run(self._request("GET", f"dags/{dag}/dagRuns/{run}"))

    def wait_runs(self, dag: str, runs: Iterable[str], timeout: float) -> list[Run]:
        """These runs, once all have finished, well or not. Raises AirflowTimeout."""
        wanted = list(runs)

        def finished() -> list[Run] | None:
            found = [self.run(dag, each) for each in wanted]
            return found if all(run.finished for run in found) else None

        return self._wait(finished, timeout, f"{dag}: {', '.join(wanted)}")

    def wait_downstream(self, dag: str, runs: Iterable[Run], timeout: float) -> list[Run]:
        """The runs that these runs triggered by asset events, once all have finished. Raises AirflowTimeout.

        ``dag`` is the one triggered. A run whose task was skipped has no event and is not waited for. Airflow
        can leave an event behind that is written while it makes a run for an earlier one: then the run that
        started first after the event is the one, for `reconcile` takes the days of such events too.
        """
        sources = {(run.dag, run.id) for run in runs}

        def finished() -> list[Run] | None:
            found: dict[str, Run] = {}
            after = sorted(
                ((run.started, run) for run in self.runs(dag) if run.started), key=lambda pair: pair[0]
            )
            for event in (event for source in sorted(sources) for event in self._events(*source)):
                made = [each["run_id"] for each in event["created_dagruns"] if each["dag_id"] == dag]
                started = [run.id for start, run in after if start >= _moment(event["timestamp"])]
                if not made and not started:
                    return None
                found |= {each: self.run(dag, each) for each in made or started[:1]}
            return list(found.values()) if all(run.finished for run in found.values()) else None

        return self._wait(
            finished, timeout, f"runs of {dag} after {', '.join(run for _, run in sorted(sources))}"
        )

    def _events(self, dag: str, run: str) -> list[dict[str, Any]]:
        query = {"source_dag_id": dag, "source_run_id": run, "limit": PAGE}
        return list(self._request("GET", "assets/events", params=query)["asset_events"])

    def task_log(self, dag: str, run: str, task: str, attempt: int | None = None) -> str:
        """The log of a task's try (default: its last), the triggerer's part included."""
        where = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        attempt = attempt or int(self._request("GET", where)["try_number"])
        content = self._request("GET", f"{where}/logs/{attempt}", params={"full_content": "true"})["content"]
        return "\n".join(_line(each) for each in content)

    def task_state(self, dag: str, run: str, task: str) -> str | None:
        state = self._request("GET", f"dags/{dag}/dagRuns/{run}/taskInstances/{task}")["state"]
        return str(state) if state else None

    def fail(self, dag: str, run: str, task: str) -> None:
        """Mark a running task failed, which stops what it supervises."""
        where = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        self._request("PATCH", where, json={"new_state": "failed"})

    def clear(self, dag: str, run: str) -> None:
        """Let all of a run's tasks run again."""
        self._request("POST", f"dags/{dag}/dagRuns/{run}/clear", json={"dry_run": False})

    def connections(self) -> dict[str, dict[str, Any]]:
        """All connections by id, passwords hidden, ``extra`` as JSON text."""
        found = self._request("GET", "connections", params={"limit": PAGE})["connections"]
        return {each["connection_id"]: each for each in found}

    def put_connection(self, name: str, fields: Mapping[str, Any], *, exists: bool) -> None:
        """Make or replace a connection; ``extra`` is an object here."""
        empty = dict.fromkeys(("host", "port", "login", "password", "schema"))
        extra = json.dumps(fields["extra"]) if fields.get("extra") else None
        body = {**empty, **fields, "connection_id": name, "extra": extra}
        if exists:
            self._request("PATCH", f"connections/{name}", json=body)
        else:
            self._request("POST", "connections", json=body)

    def import_errors(self) -> dict[str, str]:
        """What kept a DAG's file from being imported, by file."""
        errors = self._request("GET", "importErrors")["import_errors"]
        return {each["filename"]: each["stack_trace"] for each in errors}

    def _wait(self, look: Callable[[], list[Run] | None], timeout: float, what: str) -> list[Run]:
        deadline = time.monotonic() + timeout
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise AirflowTimeout(f"{what}: not finished after {timeout:.0f} s, see the runs in Airflow")
            time.sleep(POLL_SECONDS)
        return found


def _run(fields: Mapping[str, Any]) -> Run:
    start = fields["data_interval_start"]
    return Run(
        dag=fields["dag_id"],
        id=fields["dag_run_id"],
        state=fields["state"],
        kind=fields["run_type"],
        day=_day(start) if start else None,
        started=_moment(fields["start_date"]) if fields["start_date"] else None,
        ended=_moment(fields["end_date"]) if fields["end_date"] else None,
    )


def _line(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    error = "".join(
        f"\n{each.get('exc_type')}: {each.get('exc_value')}" for each in entry.get("error_detail") or []
    )
    return (
        f"{entry.get('timestamp') or ''} {entry.get('level') or ''} {entry.get('event', '')}{error}".strip()
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _day(text: str) -> date:
    return _moment(text).astimezone(UTC).date()

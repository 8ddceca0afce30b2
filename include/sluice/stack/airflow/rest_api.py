"""Does for the demo and the tests what a person does in Airflow's UI, through REST API v2."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from types import TracebackType
from typing import Any, Self

from airflow_client.client import (
    AssetApi,
    AssetEventResponse,
    BackfillApi,
    BackfillPostBody,
    ConnectionApi,
    ConnectionBody,
    DAGApi,
    DAGParsingApi,
    DAGPatchBody,
    DagRunApi,
    DAGRunClearBody,
    DAGRunResponse,
    ImportErrorApi,
    PatchTaskInstanceBody,
    ReprocessBehavior,
    TaskInstanceApi,
    TaskInstanceState,
    TriggerDAGRunPostBody,
)

from sluice.runtime.settings import Settings
from sluice.stack.airflow.answers import AirflowError, AirflowTimeout, DagRun
from sluice.stack.airflow.session import AirflowSession

POLL_SECONDS = 1.0
PAGE = 100  # the API's own limit
BACKFILL_DAYS = 50  # a backfill is not longer: a page has to have all of its runs
CONFLICT = 409


class Airflow:
    """A client of one instance's Airflow: the platform's own user, or the platform for a person.

    Close it, or use it as a context manager.
    """

    def __init__(self, settings: Settings, for_user: str = "") -> None:
        session = AirflowSession(settings, for_user)
        self._close = session.rest_client.pool_manager.clear
        self._assets, self._backfills = AssetApi(session), BackfillApi(session)
        self._connections, self._import_errors = ConnectionApi(session), ImportErrorApi(session)
        self._dags, self._runs = DAGApi(session), DagRunApi(session)
        self._parsing = DAGParsingApi(session)
        self._tasks = TaskInstanceApi(session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._close()

    def unpause(self, dag: str) -> None:
        """Let runs start.

        The DAG is parsed again: until then Airflow may count a run that ended while the DAG was paused as one
        that still runs, and start no other.
        """
        found = self._dags.patch_dag(dag, DAGPatchBody(is_paused=False))
        try:
            self._parsing.reparse_dag_file(found.file_token)
        except AirflowError as error:
            if error.status != CONFLICT:  # that is: it is to be parsed already
                raise

    def pause(self, dag: str) -> None:
        """Let no new runs start; a run that has started goes on."""
        self._dags.patch_dag(dag, DAGPatchBody(is_paused=True))

    def is_paused(self, dag: str) -> bool:
        """Whether no new runs of the DAG start."""
        return bool(self._dags.get_dag(dag).is_paused)

    def trigger(self, dag: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run by hand; returns its id."""
        body = TriggerDAGRunPostBody(logical_date=datetime.now(UTC), conf=dict(conf or {}))
        return self._runs.trigger_dag_run(dag, body).dag_run_id

    def backfill(
        self, dag: str, first: date, last: date, *, max_active_runs: int = 2, timeout: float = 600.0
    ) -> int:
        """Start a run for each day from ``first`` to ``last``; returns the backfill's id.

        Both days are included, and days that are already done run again. Airflow allows one backfill of a DAG
        at a time, so this waits for another one to end. Raises AirflowTimeout.
        """
        body = BackfillPostBody(
            dag_id=dag,
            from_date=_midnight(first),
            to_date=_midnight(last),
            reprocess_behavior=ReprocessBehavior.COMPLETED,
            max_active_runs=max_active_runs,
        )
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self._backfills.create_backfill(body).id
            except AirflowError as error:
                if error.status != CONFLICT:
                    raise
                if time.monotonic() > deadline:
                    raise AirflowTimeout(f"another backfill of {dag} does not end: cancel it") from error
            time.sleep(POLL_SECONDS)

    def wait_backfill(self, number: int, timeout: float) -> list[DagRun]:
        """The backfill's runs, once all have finished. Raises AirflowTimeout."""

        def runs() -> list[DagRun] | None:
            found = self.backfill_runs(number)
            # Airflow itself marks a backfill completed up to half a minute after its last run.
            return found if found and all(run.finished for run in found) else None

        return self._wait(runs, timeout, f"backfill {number}")

    def backfill_runs(self, number: int) -> list[DagRun]:
        """The backfill's runs; none before Airflow has made them."""
        backfill = self._backfills.get_backfill(number)
        return [
            run
            for run in self.runs(backfill.dag_id, kind="backfill")
            if run.day
            and _day(backfill.from_date) <= run.day <= _day(backfill.to_date)
            and (run.ended is None or run.ended >= backfill.created_at)
        ]

    def runs(self, dag: str, *, kind: str | None = None, since: datetime | None = None) -> list[DagRun]:
        """The DAG's runs, the newest first; with ``since`` only those made since then."""
        found = self._runs.get_dag_runs(
            dag, limit=PAGE, order_by=["-id"], run_type=[kind] if kind else None, run_after_gte=since
        )
        return [_run(each) for each in found.dag_runs]

    def run(self, dag: str, run: str) -> DagRun:
        return _run(self._runs.get_dag_run(dag, run))

    def wait_runs(self, dag: str, runs: Iterable[str], timeout: float) -> list[DagRun]:
        """These runs, once all have succeeded or failed. Raises AirflowTimeout."""
        wanted = list(runs)

        def finished() -> list[DagRun] | None:
            found = [self.run(dag, each) for each in wanted]
            return found if all(run.finished for run in found) else None

        return self._wait(finished, timeout, f"{dag}: {', '.join(wanted)}")

    def wait_downstream(self, dag: str, runs: Iterable[DagRun], timeout: float) -> list[DagRun]:
        """The runs that these runs triggered by asset events, once all have finished.

        ``dag`` is the DAG that they triggered. A run whose task was skipped has no event, so nothing is
        waited for. If an event is written while Airflow makes a run for an earlier event, Airflow may start
        no run for it. Then the first run that started after the event is taken, because `reconcile` includes
        the days of such events. Raises AirflowTimeout.
        """
        sources = {(run.dag, run.id) for run in runs}

        def finished() -> list[DagRun] | None:
            found: dict[str, DagRun] = {}
            after = sorted(
                ((run.started, run) for run in self.runs(dag) if run.started), key=lambda pair: pair[0]
            )
            for event in (event for source in sorted(sources) for event in self._events(*source)):
                made = [each.run_id for each in event.created_dagruns if each.dag_id == dag]
                started = [run.id for start, run in after if start >= event.timestamp]
                if not made and not started:
                    return None
                found |= {each: self.run(dag, each) for each in made or started[:1]}
            return list(found.values()) if all(run.finished for run in found.values()) else None

        return self._wait(
            finished, timeout, f"runs of {dag} after {', '.join(run for _, run in sorted(sources))}"
        )

    def _events(self, dag: str, run: str) -> list[AssetEventResponse]:
        found = self._assets.get_asset_events(source_dag_id=dag, source_run_id=run, limit=PAGE)
        return found.asset_events

    def task_log(self, dag: str, run: str, task: str, attempt: int | None = None) -> str:
        """The log of one try of a task (default: the last), including the triggerer's part."""
        attempt = attempt or self._tasks.get_task_instance(dag, run, task).try_number
        # The client's model of an entry drops the fields it does not name, and with them the exceptions.
        answer = self._tasks.get_log_without_preload_content(dag, run, task, attempt, full_content=True)
        return "\n".join(_line(each) for each in json.loads(answer.data)["content"])

    def task_state(self, dag: str, run: str, task: str) -> str | None:
        state = self._tasks.get_task_instance(dag, run, task).state
        return state.value if state else None

    def fail(self, dag: str, run: str, task: str) -> None:
        """Mark a running task as failed, which stops what it supervises."""
        body = PatchTaskInstanceBody(new_state=TaskInstanceState.FAILED)
        self._tasks.patch_task_instance(dag, run, task, body)

    def clear(self, dag: str, run: str) -> None:
        """Let all of a run's tasks run again."""
        self._runs.clear_dag_run(dag, run, DAGRunClearBody(dry_run=False))

    def connections(self) -> dict[str, dict[str, Any]]:
        """All connections by id, passwords hidden, ``extra`` as JSON text."""
        found = self._connections.get_connections(limit=PAGE).connections
        return {each.connection_id: each.to_dict() for each in found}

    def put_connection(self, name: str, fields: Mapping[str, Any]) -> None:
        """Make or replace a connection, whoever else makes it now; ``extra`` is an object here."""
        empty = dict.fromkeys(("host", "port", "login", "password", "schema"))
        extra = json.dumps(fields["extra"]) if fields.get("extra") else None
        body = ConnectionBody.model_validate({**empty, **fields, "connection_id": name, "extra": extra})
        try:
            self._connections.post_connection(body)
        except AirflowError as error:
            if error.status != CONFLICT:
                raise
            self._connections.patch_connection(name, body)

    def import_errors(self) -> dict[str, str]:
        """The errors of the DAG files that could not be imported, by file."""
        errors = self._import_errors.get_import_errors(limit=PAGE).import_errors
        return {each.filename: each.stack_trace for each in errors}

    def _wait(self, look: Callable[[], list[DagRun] | None], timeout: float, what: str) -> list[DagRun]:
        deadline = time.monotonic() + timeout
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise AirflowTimeout(f"{what}: not finished after {timeout:.0f} s, see the runs in Airflow")
            time.sleep(POLL_SECONDS)
        return found


def _run(found: DAGRunResponse) -> DagRun:
    return DagRun(
        dag=found.dag_id,
        id=found.dag_run_id,
        state=found.state.value,
        kind=found.run_type.value,
        day=_day(found.data_interval_start) if found.data_interval_start else None,
        started=found.start_date,
        ended=found.end_date,
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


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time_of_day(), UTC)


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()

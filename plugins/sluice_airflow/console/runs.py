"""The newest runs of Sluice's DAGs, from Airflow's own database."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from sluice.monitoring.flow.picture import FlowRun
from sluice.monitoring.flow.seen import DagRuns
from sluice.monitoring.flow.troubles import OF_DAG

SUCCESS = "success"


def newest_runs() -> dict[str, DagRuns]:
    """Each DAG that Airflow has. Raises what the database raises."""
    from airflow.utils.session import create_session

    with create_session() as session:
        return {dag: found for dag in OF_DAG if (found := _runs(session, dag)) is not None}


def address(run: FlowRun) -> str:
    """Where Airflow shows the run, below its own root."""
    from urllib.parse import quote

    of_dag = f"/dags/{quote(run.dag, safe='')}"
    return f"{of_dag}/runs/{quote(run.id, safe='')}" if run.id else of_dag


def _runs(session: Any, dag: str) -> DagRuns | None:
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun

    paused = session.execute(sa.select(DagModel.is_paused).where(DagModel.dag_id == dag)).scalar()
    if paused is None:
        return None
    own = sa.select(DagRun.run_id, DagRun.state, DagRun.start_date, DagRun.end_date).where(
        DagRun.dag_id == dag
    )
    newest: Iterable[Any] = session.execute(own.order_by(DagRun.id.desc()).limit(1))
    good = own.where(DagRun.state == SUCCESS).order_by(DagRun.id.desc()).limit(1)
    succeeded = next((_aware(row.end_date) for row in session.execute(good)), None)
    for row in newest:
        return DagRuns(FlowRun(dag, row.run_id, str(row.state)), paused, _aware(row.start_date), succeeded)
    return DagRuns(FlowRun(dag, ""), paused)


def _aware(at: datetime | None) -> datetime | None:
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)

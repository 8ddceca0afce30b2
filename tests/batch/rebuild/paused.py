"""The DAG `rebuild` at rest, so that a test carries rebuilds out itself, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.runtime.settings import Settings
from sluice.stack.airflow.rest_api import Airflow

DAG = "rebuild"


@contextmanager
def rebuilds_paused(settings: Settings) -> Iterator[None]:
    """No rebuild is carried out by Airflow as long as the block lasts."""
    with Airflow(settings) as airflow:
        airflow.pause(DAG)
        for run in airflow.runs(DAG):
            if run.state == "running":
                airflow.fail(DAG, run.id, DAG)
    try:
        yield
    finally:
        with Airflow(settings) as airflow:
            airflow.unpause(DAG)

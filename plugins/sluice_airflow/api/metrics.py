"""What a Prometheus server scrapes."""

from __future__ import annotations

import time

from fastapi import APIRouter, Response

from sluice.monitoring import figures
from sluice.monitoring.exposition import CONTENT_TYPE, exposition
from sluice_airflow.api.basic import PATH
from sluice_airflow.api.security import Reader
from sluice_airflow.api.stores import Instance

router = APIRouter(tags=["metrics"])


@router.get(PATH, response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(user: Reader, instance: Instance) -> Response:
    """The platform's figures in Prometheus' text format; basic authentication works here, too."""
    return Response(exposition(figures.read(instance, time.time())), media_type=CONTENT_TYPE)

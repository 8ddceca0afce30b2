"""### Reconcile
The asset `results` triggers it for every day that the batch layer computed. It waits until the speed layer
has passed the day's cut. Then it compares online with offline results by task, period and series, and the
hops with each other (Great Expectations; Data Docs under `var/`). It publishes the day as final only if they
agree.

A difference fails the run, with task, period, dimensions and hop named in its log. When the cause is fixed,
clear the task, or trigger a run by hand: `{"days": [{"topic": "logs", "day": "2015-05-17"}]}`, or without a
configuration for all days that are not published.
"""

from __future__ import annotations

from airflow.sdk import DAG

from sluice_airflow.defaults import BATCH, RESULTS, START, TAG
from sluice_airflow.reconciliation import Reconcile

with DAG(
    "reconcile",
    description="Online against offline, then publish",
    doc_md=__doc__,
    schedule=[RESULTS],
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=BATCH,
    tags=[TAG, "quality"],
):
    Reconcile(task_id="reconcile", asset=RESULTS)

"""### Task backfill
Runs `jobs/backfill.py` on Spark (connection `spark_default`). For one task, it counts those lines of some
days in the archive that came before the task's first commit, and adds them to the task's results. The period
in which the task was born is then whole, and each line is counted once. The next scheduled `nightly_batch`
computes these days again.

Runs come from the command line, which shows their progress:

    sluice tasks backfill hits_by_status --from 2015-05-17 --to 2015-05-20

A run is given its backfill's number (`{"backfill": 7}`). It may die and be cleared at any time: it goes on
with the days that are left. One run is active at a time; the others queue.
"""

from __future__ import annotations

from airflow.sdk import DAG

from sluice_airflow.defaults import BATCH, START, TAG
from sluice_airflow.task_backfill import TaskBackfill

with DAG(
    "task_backfill",
    description="HDFS to HBase: what a new task would have counted before it began",
    doc_md=__doc__,
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=BATCH,
    tags=[TAG, "batch"],
):
    TaskBackfill(task_id="backfill", conn_id="spark_default", job="backfill")

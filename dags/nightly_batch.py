"""### Nightly batch
`jobs/nightly.py` on Spark (connection `spark_default`): one run computes one day of event time, its data
interval, from the archive into Hive's `logs` and `task_results`. It fixes its cut when it starts.

A scheduled run waits half an hour after midnight for the day's last lines. It also computes the marked days
(late lines) again, and the days of the last month that no night computed. A backfill computes its own days
only; any day, any number of times:

    sluice nightly --from 2015-05-17 --to 2015-05-20

In these pages: Trigger, Backfill, with *Reprocess Behavior* set to *All Runs*, because the other choices
leave out days that have a run already. For a single day: Trigger, Single Run, with the day in the form.

A topic that fails on the last try too does not hold up the others: the task `every_topic` fails for it.

The computed days, their cut and their counts are in the event of the asset `results`, which triggers
`reconcile`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, CronDataIntervalTimetable

from sluice_airflow.defaults import BATCH, RESULTS, START, TAG
from sluice_airflow.nightly import NIGHT, NightlyBatch, every_topic

with DAG(
    "nightly_batch",
    description="HDFS to Hive: one day of event time, the truth",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=2,
    default_args=BATCH,
    tags=[TAG, "batch"],
    params=NIGHT,
):
    batch = NightlyBatch(
        task_id="batch",
        conn_id="spark_default",
        job="nightly",
        asset=RESULTS,
        wait=timedelta(minutes=30),
    )
    batch >> PythonOperator(task_id="every_topic", python_callable=every_topic)

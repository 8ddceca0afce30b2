"""### Rebuild
Runs `jobs/rebuild.py` on Spark (connection `spark_default`) whenever periods have to be counted again from
the archive: because a block of their state was lost or damaged, or because somebody asked:

    sluice rebuild logs --task hits_by_status

The task waits in the triggerer until a rebuild is due, and takes no worker meanwhile. It carries out one
rebuild, and the next run waits for the next one. A try may die at any time: the next one goes on with the
days that are left, and a rebuild that failed is tried again after two minutes. `sluice rebuild TOPIC --list`
shows what is counted again, and what went wrong.

While this DAG is paused, periods that were set aside stay so, and an alert names them.
"""

from __future__ import annotations

from airflow.sdk import DAG

from sluice_airflow.defaults import FOR_EVER, START, TAG
from sluice_airflow.topic_rebuild import TopicRebuild

with DAG(
    "rebuild",
    description="HDFS to HBase: state that was lost, counted again from the archive",
    doc_md=__doc__,
    schedule="@continuous",
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=FOR_EVER,
    tags=[TAG, "batch", "for ever"],
):
    TopicRebuild(task_id="rebuild", conn_id="spark_default", job="rebuild")

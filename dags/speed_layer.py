"""### Speed layer
Runs `jobs/speed_layer.py`, which counts with PySpark, for ever as a detached process; with the setting
`speed.drivers` above 1 as that many processes, which share the topics.

The task adopts the process or starts it, and then waits in the triggerer. The triggerer restarts the process
within seconds of its death, when it stands still while its lag grows, and when one of the connections was
changed. It starts and stops processes when the setting changes. All of that is in the task's log; restarts
are in `sluice status`. `sluice jobs list` says on which host each process runs.

**To stop it**: pause the DAG, then mark the running task failed. Pausing alone stops nothing.
"""

from __future__ import annotations

from airflow.sdk import DAG

from sluice_airflow.defaults import FOR_EVER, START, TAG
from sluice_airflow.supervised_process import SupervisedJob

with DAG(
    "speed_layer",
    description="Kafka to HBase: online statistics, seconds old",
    doc_md=__doc__,
    schedule="@continuous",
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=FOR_EVER,
    tags=[TAG, "online", "for ever"],
):
    SupervisedJob(task_id="speed_layer", job="speed_layer")

"""### Archive
Runs `jobs/archiver.py` for ever, as a detached process that is supervised like the speed layer. It is a Kafka
consumer group that writes the master dataset to HDFS exactly once. It archives `logs` and every topic that a
task reads. While it falls behind, one more process is started at a time, up to `archive.members`. `sluice
jobs list` says on which host each process runs.

**To stop it**: pause the DAG, then mark the running task failed. Pausing alone stops nothing.
"""

from __future__ import annotations

from airflow.sdk import DAG

from sluice_airflow.defaults import FOR_EVER, START, TAG
from sluice_airflow.supervised_process import SupervisedJob

with DAG(
    "archive",
    description="Kafka to HDFS: the master dataset, exactly once",
    doc_md=__doc__,
    schedule="@continuous",
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=FOR_EVER,
    tags=[TAG, "archive", "for ever"],
):
    SupervisedJob(task_id="archiver", job="archiver")

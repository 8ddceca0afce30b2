"""### Retention
Drops the results of days whose last line arrived more than `retention.days` ago (setting, 400): those in
HBase, their state, and the partitions of `task_results`. It also drops old commits, dead letters and files of
the ledger. The table `logs` stays, and so does the archive, unless `retention.archive_days` says when its
oldest files are deleted. docs/runbook.md has the full rule, under "Retention".

The other tasks prune what else would grow for ever. `books` sums up commits and deletes alerts. `airflow`
deletes old runs and their logs from Airflow itself. `files` deletes old Data Docs and what killed processes
left, and turns long logs. `hdfs` makes the namenode's journal part of its image. docs/runbook.md has a table
of it all, under "What grows". No task waits for another.

A run may be repeated, cleared or missed: the next one drops what is left.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronTriggerTimetable

from sluice_airflow.defaults import BATCH, START, TAG
from sluice_airflow.retention import ArchiveRetention, Pruning, Retention

with DAG(
    "retention",
    description="Drop what is older than it is kept",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 4 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=BATCH,
    tags=[TAG, "batch"],
):
    Retention(task_id="drop")
    ArchiveRetention(task_id="archive")
    Pruning(task_id="books", part="books")
    Pruning(task_id="airflow", part="airflow")
    Pruning(task_id="files", part="files")
    Pruning(task_id="hdfs", part="hdfs")

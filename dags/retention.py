"""### Retention
Drops the results of days whose last line arrived more than `retention.days` ago (setting, 400): those in
HBase, their state, and the partitions of `task_results`. It also drops old commits, dead letters and files of
the ledger. The table `logs` stays, and so does the archive, unless `retention.archive_days` says when its
oldest files are deleted. docs/runbook.md has the full rule, under "Retention".

A run may be repeated, cleared or missed: the next one drops what is left.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronTriggerTimetable

from sluice_airflow.defaults import BATCH, START, TAG
from sluice_airflow.retention import ArchiveRetention, Retention

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
    Retention(task_id="drop") >> ArchiveRetention(task_id="archive")

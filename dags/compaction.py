"""### Compaction
Merges the small files of the archive into files of about 128 MiB (setting `archive.merged_bytes`): those that
were written before yesterday began (UTC). Each file takes memory of the NameNode for ever, and the archiver
writes thousands a day. The lines, their places in Kafka and the days that were computed stay as they are.
Replaced files are kept for a day for readers that have found them, and the next night deletes them.

The same by hand, for one topic or all:

    sluice archive compact --dry-run

A run may be repeated, cleared or missed: the next one goes on from what stands. A topic that somebody else
compacts at the moment is left to them. A file that is damaged is left alone, and an alert names it.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronTriggerTimetable

from sluice_airflow.compaction import Compaction
from sluice_airflow.defaults import BATCH, START, TAG

with DAG(
    "compaction",
    description="HDFS: many small files of the archive become few",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 3 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=BATCH,
    tags=[TAG, "batch"],
):
    Compaction(task_id="compact")

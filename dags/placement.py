"""### Placement
Watches over which unit runs on which host. Units are collectors that say `runs_on: placed` in
`include/collection.yaml`. It is paused until you unpause it, and then runs for ever.

On each beat it asks all hosts for the load of their units. Once a minute, and at once when a host comes or
goes, it plans, and moves what pays, one unit after the other. The units of a host that has not answered for
10 seconds go to other hosts side by side, also while another unit moves. Each move and its reason is in the
task's log; `sluice placement explain` says why a unit stays. Settings: `placement` in
`include/settings.yaml`.

Pausing it alone stops nothing: mark its task as failed, too. Units then stay where they are; a move that is
at work ends.
"""

from __future__ import annotations

from airflow.sdk import DAG

from sluice_airflow.defaults import FOR_EVER, START, TAG
from sluice_airflow.placement import PlaceUnits

with DAG(
    "placement",
    description="Units on hosts: measure loads, move what pays, replace what a silent host had, for ever",
    doc_md=__doc__,
    schedule="@continuous",
    start_date=START,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    default_args=FOR_EVER,
    tags=[TAG, "placement", "for ever"],
):
    PlaceUnits(task_id="place")

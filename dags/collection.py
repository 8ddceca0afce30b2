"""### Collection
Deploys Flume's agents from the inventory `include/collection.yaml`, and watches over them.

1. `plan` shows in its log what the inventory changes. A faulty inventory fails here, before anything is
   touched.
2. `deploy` deploys only what changed; an edge agent is drained before it stops.
3. `supervise` watches over all agents for ever, even if the deployment failed. It restarts a dead agent, and
   raises an alert for a channel at 80 % or a failing sink (task log, `sluice status`). It also takes up what
   a host's connection says now. When the inventory is changed, it ends, and the next run deploys the change.

Marking a task of this DAG stops no agent: lines are collected whether or not somebody watches (`sluice down`
stops all agents).
"""

from __future__ import annotations

from airflow.sdk import DAG

from sluice_airflow.collection import DeployCollection, PlanCollection, SuperviseCollection
from sluice_airflow.defaults import FOR_EVER, START, TAG

with DAG(
    "collection",
    description="Flume agents: deploy what the inventory changes, supervise them for ever",
    doc_md=__doc__,
    schedule="@continuous",
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=FOR_EVER,
    tags=[TAG, "collection", "for ever"],
):
    (
        PlanCollection(task_id="plan")
        >> DeployCollection(task_id="deploy")
        >> SuperviseCollection(task_id="supervise", deployed_by="deploy", trigger_rule="all_done")
    )

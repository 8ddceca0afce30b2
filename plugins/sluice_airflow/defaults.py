"""What all of Sluice's DAGs have in common."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import Asset

from sluice_airflow.failures import alert, clear

OWNER = "sluice"
TAG = "sluice"
# For the DAGs that run for ever: a failed claim or a crash loop is tried again, for ever, but not in a hurry.
FOR_EVER = {
    "owner": OWNER,
    "retries": 3,
    "retry_delay": timedelta(seconds=15),
    "on_failure_callback": alert,
    "on_execute_callback": clear,  # it never ends well, so the alert is cleared when it starts again
}
# For the batch: a daemon that restarts is back within a minute or two.
BATCH = {
    "owner": OWNER,
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    "on_failure_callback": alert,
    "on_success_callback": clear,
}
# A fixed day in the past; the for-ever DAGs start when they are unpaused.
START = pendulum.datetime(2024, 1, 1, tz="UTC")
# What the batch layer computed: an event for each run, with its days, their cut and their counts.
RESULTS = Asset(name="results", uri="sluice://results")

"""`/sluice/metrics` in the real Airflow: the scrape of a real user, filled by the real watch."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluice.runtime.settings import Settings
from sluice.stack import catalogue
from sluice.stack.users import Users
from sluice.storage.postgres import engine
from sluice.storage.tables import samples
from sluice_lab.waiting import until

pytestmark = pytest.mark.stack

PATH = "/sluice/metrics"
LOOK_SECONDS, SAMPLE_SECONDS = 90.0, 150.0


@pytest.fixture
def http(stack: Settings) -> Iterator[httpx.Client]:
    users, name = Users(stack), f"prometheus-{uuid.uuid4().hex[:8]}"
    login = (name, users.add(name, "viewer"))
    with httpx.Client(base_url=stack.airflow.url, timeout=120, trust_env=False, auth=login) as client:
        yield client
    users.remove(name)


def healthy(http: httpx.Client) -> dict[str, float]:
    return {
        sample.labels["daemon"]: sample.value
        for family in text_string_to_metric_families(http.get(PATH).raise_for_status().text)
        if family.name == "sluice_daemon_healthy"
        for sample in family.samples
    }


def test_a_scrape_shows_every_daemon(stack: Settings, http: httpx.Client) -> None:
    own = {daemon.name for daemon in catalogue.own(stack)}
    until(lambda: healthy(http).keys() >= own, LOOK_SECONDS, "the watch has looked")


def test_nobody_scrapes_without_the_right_password(stack: Settings, http: httpx.Client) -> None:
    assert httpx.get(stack.airflow.url + PATH, trust_env=False, timeout=120).status_code == 401
    assert http.get(PATH, auth=("nobody", "guess")).status_code == 401


def test_the_watch_keeps_samples(stack: Settings) -> None:
    database, recent = engine(stack), datetime.now(UTC) - timedelta(minutes=3)
    until(lambda: bool(samples.since(database, recent, "sluice_daemon_healthy")), SAMPLE_SECONDS, "a sample")

"""Connections in the running Airflow follow the settings until a person changes them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from airflow_client.client import ConnectionApi

from sluice.runtime.settings import Settings
from sluice.stack.airflow.connections import CONNECTIONS, from_settings
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.airflow.session import AirflowSession
from sluice.stack.airflow.stored_connections import give
from sluice_lab.waiting import SECONDS

pytestmark = pytest.mark.stack


@pytest.fixture
def airflow(stack: Settings) -> Iterator[Airflow]:
    with Airflow(stack) as airflow:
        give(stack, airflow)
        yield airflow
        airflow.put_connection("spark_default", from_settings(stack)["spark_default"])
        give(stack, airflow)


def with_master(settings: Settings, master: str) -> Settings:
    return settings.model_copy(update={"spark": settings.spark.model_copy(update={"master": master})})


def test_all_connections_are_there_and_nothing_is_written_a_second_time(
    stack: Settings, airflow: Airflow
) -> None:
    assert set(CONNECTIONS) <= set(airflow.connections())
    assert give(stack, airflow) == []


def test_a_new_password_is_passed_on(stack: Settings, airflow: Airflow) -> None:
    changed = stack.postgres.model_copy(update={"password": "rotated"})
    try:
        assert give(stack.model_copy(update={"postgres": changed}), airflow) == ["sluice_db"]
    finally:
        assert give(stack, airflow) == ["sluice_db"]
    assert give(stack, airflow) == []


def test_settings_are_followed_until_a_person_changes_the_connection(
    stack: Settings, airflow: Airflow
) -> None:
    assert give(with_master(stack, "spark://a:7077"), airflow) == ["spark_default"]
    assert airflow.connections()["spark_default"]["host"] == "spark://a:7077"
    airflow.put_connection("spark_default", {"conn_type": "spark", "host": "spark://mine:7077"})
    assert give(with_master(stack, "spark://b:7077"), airflow) == []
    assert airflow.connections()["spark_default"]["host"] == "spark://mine:7077"


class Together(Airflow):
    """Goes on only when the other one has seen the same connections."""

    def __init__(self, settings: Settings, both: Barrier) -> None:
        super().__init__(settings)
        self.both = both

    def connections(self) -> dict[str, dict[str, Any]]:
        found = super().connections()
        self.both.wait(SECONDS)
        return found


def test_two_bring_ups_at_once_give_the_same_connections(stack: Settings, airflow: Airflow) -> None:
    ConnectionApi(AirflowSession(stack)).delete_connection("spark_default")
    both = Barrier(2)

    def bring_up() -> list[str]:
        with Together(stack, both) as mine:
            return give(stack, mine)

    with ThreadPoolExecutor(2) as pool:
        written = [each.result() for each in [pool.submit(bring_up) for _ in range(2)]]
    assert written == [["spark_default"]] * 2
    assert give(stack, airflow) == []

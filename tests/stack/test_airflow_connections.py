"""Connections in the running Airflow follow the settings until a person changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.airflow_api import Airflow
from sluice.stack.airflow_connections import give
from sluice.stack.connections import CONNECTIONS, from_settings

pytestmark = pytest.mark.stack


@pytest.fixture
def airflow(stack: Settings) -> Iterator[Airflow]:
    with Airflow(stack) as airflow:
        give(stack, airflow)
        yield airflow
        airflow.put_connection("spark_default", from_settings(stack)["spark_default"], exists=True)
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
    airflow.put_connection("spark_default", {"conn_type": "spark", "host": "spark://mine:7077"}, exists=True)
    assert give(with_master(stack, "spark://b:7077"), airflow) == []
    assert airflow.connections()["spark_default"]["host"] == "spark://mine:7077"

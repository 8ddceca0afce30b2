"""The one list of daemons: complete, in order, without clashes."""

from __future__ import annotations

import itertools

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import catalogue, shutdown
from sluice.stack.catalogue import DAEMONS, UnknownDaemon, UnknownService


@pytest.fixture
def settings() -> Settings:
    return Settings(instance="test")


def test_a_daemon_is_found_under_its_own_name() -> None:
    assert all(name == daemon.name for name, daemon in DAEMONS.items())


def test_every_dependency_is_a_daemon_and_comes_first() -> None:
    order = [daemon.name for daemon in catalogue.in_order()]
    assert sorted(order) == sorted(DAEMONS)
    for daemon in DAEMONS.values():
        assert all(order.index(name) < order.index(daemon.name) for name in daemon.depends_on)


def test_no_two_daemons_share_a_port(settings: Settings) -> None:
    ports = [settings.port(name) for daemon in DAEMONS.values() for name in daemon.ports]
    assert len(ports) == len(set(ports))


def test_blocks_of_ports_do_not_overlap(settings: Settings) -> None:
    span = max(settings.port_offsets.values()) + 100  # Flume's agents count up from the last
    bases = sorted(settings.port_bases.values())
    assert all(after - before >= span for before, after in itertools.pairwise(bases))


def test_no_two_daemons_share_data() -> None:
    data = [
        directory for daemon in DAEMONS.values() if daemon.service != "airflow" for directory in daemon.data
    ]
    assert len(data) == len(set(data))


def test_layers_stop_before_what_they_depend_on() -> None:
    layer = {daemon.name: level for level, daemons in enumerate(shutdown.levels()) for daemon in daemons}
    assert set(layer) == set(DAEMONS)
    for daemon in DAEMONS.values():
        assert all(layer[name] < layer[daemon.name] for name in daemon.depends_on)


def test_an_external_service_is_not_run() -> None:
    settings = Settings(instance="test", external=catalogue.external("kafka, hdfs"))
    own = [daemon.name for daemon in catalogue.own(settings)]
    assert {"kafka", "namenode", "datanode"}.isdisjoint(own)
    assert {"hbase", "airflow-api"} <= set(own)


def test_of_an_external_service_only_what_clients_reach_is_waited_for() -> None:
    settings = Settings(instance="test", external=frozenset({"hdfs"}))
    assert catalogue.dependencies(settings, DAEMONS["hbase"]) == ["namenode"]


def test_an_unknown_external_service_is_refused_with_the_list() -> None:
    with pytest.raises(UnknownService, match=r"redis: the services are postgres, kafka, hdfs"):
        catalogue.external("kafka,redis")


def test_an_unknown_daemon_is_refused_with_the_list() -> None:
    with pytest.raises(UnknownDaemon, match=r"no daemon 'redis': the daemons are postgres, kafka"):
        catalogue.daemon("redis")

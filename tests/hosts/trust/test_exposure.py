"""What a user with other hosts is warned of."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli import exposure as at_the_terminal
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.trust import exposure

OTHERS = """
- {name: local, address: 10.0.0.1}
- {name: work1, address: 10.0.0.31, ssh: {user: me}, roles: [ROLE], release: /opt/sluice}
"""


def given(home: Path, role: str = "jobs", **settings: str) -> Settings:
    text = OTHERS.replace("ROLE", role)
    (home / hosts.FILE).write_text(text if role == "jobs" else text.replace(", release: /opt/sluice", ""))
    return Settings(instance="test", home=home, port_base=29_000, network="host", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["edge", "collector", "jobs"])
def test_an_address_of_all_daemons_opens_kafka_beside_its_listener_for_hosts(
    tmp_path: Path, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = given(tmp_path, role, bind_host="10.0.0.1")
    (said,) = exposure.warnings(settings)
    assert said.startswith("bind_host = '10.0.0.1': ")
    assert "Kafka's super user without a password" in said
    assert "set hadoop_host" in said
    at_the_terminal.warn(settings)
    assert capsys.readouterr().err == f"WARNING: {said}\n"


def test_containers_without_other_hosts_are_not_warned(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path, port_base=29_000, bind_host="0.0.0.0")  # noqa: S104
    assert not list(exposure.warnings(settings))


def test_jobs_that_do_not_reach_hdfs_and_hbase_are_named(tmp_path: Path) -> None:
    (said,) = exposure.warnings(given(tmp_path))
    assert said.startswith(
        "hadoop_host = '': work1 has the role jobs, and does not reach HDFS or HBase at 127.0"
    )
    assert not list(exposure.warnings(given(tmp_path, hadoop_host="10.0.0.1")))
    assert not list(exposure.warnings(given(tmp_path, "collector")))


def test_a_list_of_hosts_that_cannot_be_used_is_said_by_others(tmp_path: Path) -> None:
    (tmp_path / hosts.FILE).write_text("- {name: odd}")
    at_the_terminal.warn(Settings(instance="test", home=tmp_path, port_base=29_000))

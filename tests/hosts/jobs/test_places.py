"""Where members of jobs belong and run."""

from __future__ import annotations

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice_hosts import hosts, placed
from sluice_hosts.jobs import moving, places
from sluice_hosts.jobs.moving import NoSuchPlace

HOSTS = """
- {name: local, address: 127.0.0.1}
- {name: h1, address: 127.0.1.1, ssh: {user: me}, roles: [jobs], release: /opt/sluice}
- {name: h2, address: 127.0.1.2, ssh: {user: me}, roles: [collector]}
"""


@pytest.fixture
def listed(settings: Settings) -> Settings:
    (settings.home / hosts.FILE).write_text(HOSTS)
    return settings


@pytest.mark.parametrize(
    ("member", "unit"),
    [
        ("archiver", "archiver:1"),
        ("archiver-12", "archiver:12"),
        ("speed_layer", "speed_layer:1"),
        ("speed_layer-2", "speed_layer:2"),
    ],
)
def test_a_member_is_a_unit(member: str, unit: str) -> None:
    assert places.unit(member) == unit
    assert places.member(unit) == member


def test_a_member_belongs_here_unless_a_host_with_the_role_is_written_down(listed: Settings) -> None:
    placed.write(listed, {"archiver:1": "h1", "archiver:2": "h2", "archiver:3": "gone"})
    found = [places.belongs_on(listed, name) for name in ("archiver", *(f"archiver-{n}" for n in (2, 3, 4)))]
    assert found == ["h1", "local", "local", "local"]
    (listed.home / hosts.FILE).unlink()
    assert places.belongs_on(listed, "archiver") == "local"


def test_the_command_says_where_it_runs(listed: Settings) -> None:
    for host in ("local", "h1"):
        argv = places.command(listed, "archiver-2", host, ["--topic", "logs"])
        assert argv[-4:] == ["--topic", "logs", "--member", "archiver-2"]
        record = detached.ProcessRecord("archiver-2", 1, 1, "", "", argv, "")
        assert places.host_of(record) == host
    assert places.runs_on(listed, "archiver-2") is None


def test_a_move_that_cannot_be_changes_nothing(listed: Settings) -> None:
    run = listed.home / "run"
    with pytest.raises(NoSuchPlace, match=r"no job 'archiver:1': there are none"):
        moving.move(listed, "archiver:1", "h1", print)
    detached.start("archiver", places.command(listed, "archiver", "local"), run=run)
    with pytest.raises(NoSuchPlace, match=r"'h2': no host with the role jobs .*; there are local, h1"):
        moving.move(listed, "archiver:1", "h2", print)
    with pytest.raises(NoSuchPlace, match=r"run `sluice hosts enrol h1`"):
        moving.move(listed, "archiver:1", "h1", print)
    with pytest.raises(NoSuchPlace, match=r"no job 'archiver:2': there are archiver:1"):
        moving.move(listed, "archiver:2", "h1", print)
    assert placed.read(listed) == {}


def test_drivers_stay_here_if_spark_has_a_cluster_and_archivers_need_not(listed: Settings) -> None:
    spark = listed.spark.model_copy(update={"master": "spark://10.0.0.5:7077"})
    cluster = listed.model_copy(update={"spark": spark})
    placed.write(listed, {"archiver:1": "h1", "speed_layer:1": "h1"})
    assert places.belongs_on(listed, "speed_layer") == "h1"
    found = {name: places.belongs_on(cluster, name) for name in ("archiver", "speed_layer")}
    assert found == {"archiver": "h1", "speed_layer": "local"}
    with pytest.raises(NoSuchPlace, match=r"speed_layer:1 stays on local: .* spark://10\.0\.0\.5:7077"):
        moving.move(cluster, "speed_layer:1", "h1", print)


def test_a_member_that_does_not_run_is_written_down_for_another_host(listed: Settings) -> None:
    placed.write(listed, {"archiver:3": "h1"})
    said: list[str] = []
    moving.move(listed, "archiver:3", "local", said.append)
    assert said == ["archiver:3: does not run now; it is to start on local"]
    assert placed.read(listed) == {"archiver:3": "local"}

"""What a plan sees: which hosts take units, and which units are left alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.runtime.sections import Placement
from sluice.storage.tables.units import HostRow, MoveRow, UnitRow
from sluice_hosts import hosts
from sluice_hosts.trust import broker, enrolment
from sluice_hosts.units.failures import failures
from sluice_hosts.units.kinds import Running
from sluice_hosts.units.view import HostView, UnitView, View, host_view, state_of, unit_view, view
from tests.hosts.units.double import DictionaryUnits, Instance

AT = datetime(2026, 11, 25, 12, tzinfo=UTC)


def state(instance: Instance, row: HostRow | None, name: str = "h1") -> tuple[str, str]:
    return state_of(instance.settings, hosts.load(instance.settings)[name], row, AT)


def test_a_host_is_open_if_it_answers_may_have_collectors_and_is_enrolled(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8)
    row = HostRow("h1", AT)
    assert state(instance, row) == ("open", "")
    assert state(instance, None) == ("barred", "has not been looked at yet")
    assert state(instance, None, "local") == ("open", "")
    assert state(instance, HostRow("h1", AT, why="it refuses the key"))[0] == "barred"
    monkeypatch.setattr(broker, "admitted", lambda _: [])
    assert "no user in Kafka" in state(instance, row)[1]
    monkeypatch.setattr(enrolment, "state", lambda *_: "host h1 is not enrolled")
    assert "is not enrolled" in state(instance, row)[1]


@pytest.mark.parametrize(
    ("seconds", "found"), [(0, "waiting"), (9.9, "waiting"), (10, "away"), (9_999, "away")]
)
def test_a_silent_host_waits_and_is_away_after_the_setting(
    instance: Instance, seconds: float, found: str
) -> None:
    instance.hosts(h1=8)
    row = HostRow("h1", AT, silent_since=AT - timedelta(seconds=seconds), why="no route to host")
    assert state(instance, row)[0] == found
    assert "no route to host" in state(instance, row)[1]


def test_a_host_that_lost_its_role_is_shut(instance: Instance) -> None:
    instance.hosts(h1=8)
    path = instance.settings.home / hosts.FILE
    path.write_text(path.read_text().replace("roles: [edge, collector]", "roles: [edge]"))
    assert state(instance, HostRow("h1", AT))[0] == "shut"


def test_a_host_takes_units_of_its_roles_alone(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    path = instance.settings.home / hosts.FILE
    name, roles = "h2, address: 127.0.0.1, slots: 8", "roles: [edge, collector]"
    path.write_text(path.read_text().replace(f"{name}, {roles}", f"{name}, roles: [jobs], release: /opt/it"))
    assert state(instance, HostRow("h2", AT), "h2") == ("open", "")
    units = DictionaryUnits({"c1": "h1", "c2": "h1"}, lists=[["c1", "c2"]], fixed={"c2"})
    shown = view(instance.settings, instance.database, [units], AT)
    assert shown.states["h2"].refuses == {
        "collector": "has no role collector in hosts.yaml",
        "jobs": "has no checked release: run `sluice hosts enrol h2`",
    }
    only = {unit.name: unit.hosts for unit in shown.cluster.units}
    assert only == {"collector:c1": {"h1", "local"}, "collector:c2": None, "collector:here": None}
    lost = Running("archiver:1", "h1", movable=True, role="jobs")
    assert shown.leaves(lost) == "h1 has no role jobs in hosts.yaml"
    assert not shown.leaves(Running("collector:c1", "h1", movable=True))


def test_hosts_without_collectors_do_not_part_collectors(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1", "c3": "h1"}, lists=[["c1", "c2", "c3"]])

    def group() -> str | None:
        shown = view(instance.settings, instance.database, [units], AT).units
        return next(each.running.group for each in shown if each.running.name == "collector:c1")

    assert group() == "c1, c2 and 1 more"
    path = instance.settings.home / hosts.FILE
    path.write_text(path.read_text().replace("roles: [edge, collector]", "roles: [jobs], release: /opt/it"))
    assert group() is None


def test_speed_is_what_the_rest_of_the_host_leaves_or_what_is_set(instance: Instance) -> None:
    instance.hosts(h1=8)
    host = hosts.load(instance.settings)["h1"]

    def speed(others: float) -> float | None:
        row = HostRow("h1", AT, cores=4, core=1.5, smoothed={"others": [others, 1.0]})
        return host_view(instance.settings, host, row, AT).speed

    assert speed(1.0) == pytest.approx(4.5)
    assert speed(99.0) == pytest.approx(0.6), "a tenth is left in any case"
    placement = Placement(speeds={"h1": 2.5})
    instance.settings = instance.settings.model_copy(update={"placement": placement})
    assert speed(1.0) == 2.5


def test_units_of_hosts_that_cannot_be_asked_are_left_out_and_those_of_lost_hosts_start_elsewhere() -> None:
    shown = tuple(
        HostView(f"h{n}", 4, state)
        for n, state in enumerate(("open", "away", "waiting", "shut", "barred"), start=1)
    )
    units = tuple(
        UnitView(Running(f"collector:{kind}{n}", f"h{n}", movable=kind == "m"))
        for n in range(1, 7)
        for kind in ("f", "m")
    )
    cluster = View(AT, shown, units).cluster
    assert [host.name for host in cluster.hosts] == ["h1"]
    assert {unit.name for unit in cluster.units} == {
        f"collector:{name}" for name in ("f1", "m1", "m2", "m4", "m6")
    }
    assert [unit.name for unit in cluster.units if unit.fixed] == ["collector:f1"]
    assert set(cluster.running()) == {"collector:f1", "collector:m1"}


@pytest.mark.parametrize(
    ("host", "begun", "warm", "lost"),
    [
        ("h1", None, None, True),
        ("h1", -60, None, True),
        ("h1", -60, -1, True),
        ("h1", -60, 30, False),
        ("h2", -60, -1, True),
        ("h2", -60, 30, False),
        ("h2", -60, 10, True),
        ("h1", 30, None, False),
        ("h1", 10, None, True),
    ],
    ids=[
        "never seen",
        "tried before",
        "ran before",
        "ran",
        "was elsewhere",
        "comes",
        "does not come",
        "tries since",
        "tried since",
    ],
)
def test_a_unit_is_lost_if_it_did_not_run_on_its_host_since_its_move_there_failed(
    host: str, begun: float | None, warm: float | None, lost: bool
) -> None:
    """begun, warm: seconds after the failure, which was 140 seconds ago; its process is young in any case."""
    failed = AT - timedelta(seconds=140)

    def at(seconds: float | None) -> float | None:
        return None if seconds is None else failed.timestamp() + seconds

    last = AT.timestamp() if host == "h1" else at(warm)
    reading = {"at": last, "age": 5.0, "host": host, "begun_at": at(begun), "warm_at": at(warm)}
    running = Running("archiver:1", "h1", movable=True, role="jobs")
    unit = unit_view(running, UnitRow("archiver:1", {}, reading))
    move = MoveRow(1, "archiver:1", "h2", "h1", "", False, failed, failed, "no Java")
    shown = View(AT, (HostView("h1", 4, "open"),), (unit,), failures([move], AT))
    assert bool(shown.leaves(running)) == lost


def test_a_unit_that_moves_takes_slots_of_both_hosts_and_keeps_its_group_off_both() -> None:
    shown = tuple(HostView(f"h{n}", 4, "open" if n < 4 else "away") for n in range(1, 6))
    units = tuple(
        UnitView(Running(f"collector:c{n}", f"h{host}", movable=True, group="all"), cpu=1.0)
        for n, host in ((1, 1), (2, 4), (3, 3))
    )

    def moving(source: str, target: str) -> dict[str, str]:
        row = MoveRow(1, "collector:c1", source, target, "", True, AT, None, "")
        cluster = View(AT, shown, units, under_way=(row,)).cluster
        here = [each for each in cluster.units if each.name.startswith("collector:c1")]
        assert all(each.fixed and each.group == "all" for each in here)
        return {each.name: cluster.placed[each.name] for each in here}

    assert moving("h1", "h2") == {"collector:c1": "h2", "collector:c1 (leaves)": "h1"}
    assert moving("h4", "h2") == {"collector:c1": "h2"}
    assert moving("h1", "h4") == {"collector:c1 (leaves)": "h1"}


def test_groups_follow_the_number_of_hosts_that_take_units(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h2", "c3": "h1"}, lists=[["c1", "c2", "c3"]])

    def groups() -> int:
        shown = view(instance.settings, instance.database, [units]).units
        return len({each.running.group for each in shown if each.running.group})

    assert groups() == 1
    instance.silence("h1", 60)
    assert groups() == 1, "two and one"
    instance.silence("h2", 60)
    assert groups() == 0

"""A plan is carried out within its budget, one of a group at a time, and can be repeated after any death."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.sections import Placement
from sluice.runtime.settings import Settings
from sluice.storage.tables import alerts
from sluice.storage.tables import units as book
from sluice.storage.tables.schema import unit_moves
from sluice_hosts.units import carrying, failures, mover, moves, proposals, view
from sluice_hosts.units.carrying import MoveFailed
from sluice_hosts.units.kinds import Log, MovedMeanwhile
from sluice_hosts.units.mover import PlacementBusy
from sluice_lab.waiting import until
from tests.examples import examples
from tests.hosts.units.double import Broken, DictionaryUnits, Instance, Killed, made

HOSTS = ("h1", "h2", "h3")


def apply(instance: Instance, units: DictionaryUnits, since: datetime | None = None) -> list[str]:
    """What was said."""
    said: list[str] = []
    moves.apply(instance.settings, instance.database, [units], said.append, since=since)
    return said


def budget(instance: Instance, moves_an_hour: int) -> None:
    placement = Placement(moves_an_hour=moves_an_hour)
    instance.settings = instance.settings.model_copy(update={"placement": placement})


def rows(instance: Instance) -> list[book.MoveRow]:
    with instance.database.connect() as connection:
        return book.last_moves(connection, 1_000)


def open_alerts(instance: Instance) -> list[str]:
    return [each.message for each in alerts.open_alerts(instance.database, carrying.SOURCE)]


def crowded(count: int = 4) -> DictionaryUnits:
    """Units that are all on h1."""
    return DictionaryUnits({f"c{n}": "h1" for n in range(1, count + 1)})


def test_what_is_uneven_is_evened_out_and_then_nothing_moves(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = crowded()
    said = apply(instance, units)
    assert sorted(Counter(units.where.values()).values()) == [2, 2]
    assert any("moves from h1 to h2: h1 is " in line for line in said)
    assert [(row.error, row.ended_at is not None, row.counts) for row in rows(instance)] == [
        ("", True, True)
    ] * 2
    assert apply(instance, units) == []
    assert open_alerts(instance) == []


@pytest.mark.slow
def test_the_budget_is_of_an_hour_whoever_asks(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    budget(instance, 1)
    units = crowded()
    assert sum(" moves from " in line for line in apply(instance, units)) == 1
    assert apply(instance, units) == []
    proposal = proposals.propose(instance.settings, instance.database, [units])
    assert (proposal.left, proposal.plan.waiting) == (0, 1)
    assert "1 moves wait" in "\n".join(proposal.notes())
    long_ago = datetime.now(UTC) - timedelta(minutes=61)
    with instance.database.begin() as connection:
        connection.execute(sa.update(unit_moves).values(begun_at=long_ago))
    assert len(units.moved) == 1
    apply(instance, units)
    assert len(units.moved) == 2


def test_units_of_a_silent_host_go_elsewhere_beyond_the_budget_and_others_stay(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=8)
    budget(instance, 0)
    units = DictionaryUnits({"c1": "h1", "c2": "h1", "c3": "h2"})
    instance.silence("h1", 9)
    assert apply(instance, units) == []
    instance.silence("h1", 31)
    said = apply(instance, units)
    assert "h1" not in units.where.values()
    assert units.where["c3"] == "h2"
    assert sum("h1 has not answered since" in line for line in said) == 2
    assert [row.counts for row in rows(instance)] == [False, False]


def test_a_fixed_unit_of_a_silent_host_stays_and_takes_up_room_elsewhere(instance: Instance) -> None:
    instance.hosts(h1=8, h2=2)
    units = DictionaryUnits({"c1": "h1", "c2": "h2", "c3": "h1"}, fixed={"c1", "c2"})
    instance.silence("h1", 31)
    apply(instance, units)
    assert units.where == {"c1": "h1", "c2": "h2", "c3": "h2"}


@pytest.mark.slow
def test_units_of_a_host_that_may_have_none_leave_it_and_all_are_recorded_first(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    budget(instance, 0)
    path = instance.settings.home / "hosts.yaml"
    path.write_text(
        path.read_text().replace("slots: 8, roles: [edge, collector]", "slots: 8, roles: [edge]", 1)
    )
    units = DictionaryUnits({"c1": "h1", "c2": "h1", "c3": "gone", "c4": "h2"})
    units.fails = {"c1", "c2", "c3"}
    with pytest.raises(MoveFailed):
        apply(instance, units)
    assert units.recorded == [{f"collector:{name}": "h2" for name in ("c1", "c2", "c3")}]
    units.fails.clear()
    said = apply(instance, units)
    assert set(units.where.values()) == {"h2"}
    assert any("h1 has no role collector in hosts.yaml" in line for line in said)
    assert any("hosts.yaml has no host gone any more" in line for line in said)


@pytest.mark.slow
def test_where_units_failed_to_go_may_lose_its_role_and_they_go_elsewhere(instance: Instance) -> None:
    instance.hosts(h1=8, h3=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"}, broken={"h3"})
    instance.silence("h1", 60)
    with pytest.raises(MoveFailed):
        apply(instance, units)
    assert units.belongs == {"collector:c1": "h3", "collector:c2": "h3"}
    instance.hosts(h1=8, h5=8)
    instance.silence("h1", 60)
    apply(instance, units)
    assert units.recorded == [{"collector:c1": "h5", "collector:c2": "h5"}], "before the first one moves"
    assert units.where == {"c1": "h5", "c2": "h5"}


def test_while_a_host_is_perhaps_gone_running_units_stay(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=8)
    units = crowded()
    instance.silence("h3", 5)
    assert apply(instance, units) == []
    instance.answers("h3")
    assert apply(instance, units)


@pytest.mark.slow
def test_a_move_that_was_killed_is_finished_and_paid_for_once(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    budget(instance, 2)
    units = crowded()
    units.kills = set(units.where)
    with pytest.raises(Killed):
        apply(instance, units)
    units.kills.clear()
    assert [row.ended_at for row in rows(instance)] == [None]
    said = apply(instance, units)
    assert "was broken off and goes on" in said[0]
    assert len(units.moved) == len(rows(instance)) == 2
    assert all(row.ended_at for row in rows(instance))


def test_a_killed_move_to_a_host_that_is_gone_since_is_given_up(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = crowded()
    units.kills = set(units.where)
    with pytest.raises(Killed):
        apply(instance, units)
    units.kills.clear()
    instance.silence("h2", 60)
    (unit,) = units.belongs
    assert units.belongs == {unit: "h2"}
    assert "given up" in apply(instance, units)[0]
    assert units.moved == []
    assert units.belongs == {unit: "h1"}


@pytest.mark.slow
def test_a_failed_move_stops_the_rest_and_is_planned_again(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = crowded()
    units.fails = set(units.where)
    with pytest.raises(MoveFailed, match="its channel does not drain"):
        apply(instance, units)
    assert [row.error for row in rows(instance)] == ["its channel does not drain"]
    assert "it is planned again" in open_alerts(instance)[0]
    units.fails.clear()
    assert apply(instance, units) == [], "its target is avoided"
    apply(instance, units, since=datetime.now(UTC))
    assert len(units.moved) == 2
    assert open_alerts(instance) == []


def test_what_a_dead_host_had_goes_at_once_to_another_host_than_a_broken_one(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h3", "c3": "h3", "c4": "h3"}, broken={"h2"})
    instance.silence("h1", 60)
    with contextlib.suppress(MoveFailed):
        apply(instance, units)
    assert units.where["c1"] == "h3", "h2 is empty, and was preferred"
    assert [(row.target, bool(row.error)) for row in rows(instance) if row.unit == "collector:c1"] == [
        ("h2", True),
        ("h3", False),
    ]
    found = proposals.propose(instance.settings, instance.database, [units])
    assert found.plan.moves == []
    assert "host h2 is avoided until " in "\n".join(found.notes())


@pytest.mark.slow
def test_an_avoided_host_is_the_last_resort_and_is_avoided_for_a_while_only(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1"}, broken={"h2"})
    instance.silence("h1", 60)
    for _ in range(2):
        with pytest.raises(MoveFailed, match="h2 has no Java"):
            apply(instance, units)
    assert [row.target for row in rows(instance)] == ["h2", "h2"], "once each time, and not for ever"
    assert "no other host can take it, although a move of " in rows(instance)[1].why
    instance.answers("h1")
    units.where["c2"] = "h1"
    assert apply(instance, units) == []
    monkeypatch.setattr(failures, "FIRST", timedelta(0))
    units.broken.clear()
    apply(instance, units)
    assert sorted(units.where.values()) == ["h1", "h2"]


@pytest.mark.slow
def test_a_unit_that_is_lost_on_its_target_is_planned_from_there(instance: Instance) -> None:
    """A job is recorded at its target before it runs there, and may never do so."""
    instance.hosts(h1=8, h2=8, h3=8)
    units = DictionaryUnits({"c1": "h1"}, broken={"h2", "h3"})
    instance.silence("h1", 60)
    with pytest.raises(MoveFailed):
        apply(instance, units)
    units.where["c1"] = first = rows(instance)[-1].target
    with pytest.raises(MoveFailed):
        apply(instance, units)
    assert rows(instance)[-1].target != first, "all are avoided, and it does not run where it is"
    assert any("could not move" in line for line in open_alerts(instance)), "nothing runs"
    units.broken.clear()
    apply(instance, units)
    assert units.where["c1"] != first
    assert open_alerts(instance) == []
    units.where["c1"] = first
    with instance.database.begin() as connection:
        connection.execute(sa.delete(unit_moves).where(unit_moves.c.target != first))
    said = apply(instance, units)
    assert units.where["c1"] != first
    assert any(
        f"it does not run on {first}: a move of collector:c1 to {first} failed" in line for line in said
    )


def test_a_unit_that_need_not_move_is_brought_back_and_left_alone(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8, h2=8)
    units, asked, move = crowded(), list[tuple[str, str]](), DictionaryUnits.move
    units.broken = {"h2"}

    def noted(settings: Settings, unit: str, host: str, log: Log) -> None:
        asked.append((unit, host))
        move(units, settings, unit, host, log)

    monkeypatch.setattr(units, "move", noted)
    with pytest.raises(MoveFailed):
        apply(instance, units)
    (failed,) = rows(instance)
    assert asked == [(failed.unit, "h2"), (failed.unit, "h1")]
    found = proposals.propose(instance.settings, instance.database, [units])
    assert found.plan.moves == []
    notes = "\n".join(found.notes())
    assert f"{failed.unit} is not moved to even hosts out until " in notes


def test_who_moves_a_unit_meanwhile_has_the_last_word(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = crowded(2)
    units.waits = {name: threading.Event() for name in units.where}
    moving, said = mover.Mover(instance.settings, instance.database, [units]), list[str]()
    assert moving.begin(said.append)
    until(lambda: len(units.begun) == 1, what="a move")
    (name,) = units.begun
    units.belongs[f"collector:{name}"] = "local"
    units.waits[name].set()
    moving.wait()
    assert units.belongs[f"collector:{name}"] == "local", "it is not brought back"
    assert said[-1] == f"collector:{name} belongs on local now"
    assert (moving.arrived, moving.failed, open_alerts(instance)) == ([], [], [])
    assert [row.error for row in rows(instance)] == [book.MOVED_MEANWHILE]
    assert not proposals.propose(instance.settings, instance.database, [units]).view.failed.found


@pytest.mark.parametrize("silent", [True, False], ids=["starts", "evens out"])
def test_a_unit_that_somebody_moves_is_left_to_that_one(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """It is on record where it was for a while."""
    instance.hosts(h1=8, h2=8)
    units, asked = crowded(2), list[str]()
    if silent:
        units = crowded(1)
        instance.silence("h1", 60)

    def overruled(settings: Settings, unit: str, host: str, log: Log) -> None:
        asked.append(unit)
        raise MovedMeanwhile(f"{unit} belongs on local now")

    with monkeypatch.context() as moves_it:
        moves_it.setattr(units, "move", overruled)
        apply(instance, units)
    assert len(asked) == 1
    apply(instance, units)
    assert len(units.moved) == 1, "it is planned again by the next regular plan"


def test_a_unit_that_was_moved_after_its_move_failed_is_not_brought_back(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8, h2=8)
    units, asked = crowded(2), list[str]()

    def fails(settings: Settings, unit: str, host: str, log: Log) -> None:
        asked.append(host)
        units.belongs[unit] = "local"
        raise Broken("h2 has no Java")

    monkeypatch.setattr(units, "move", fails)
    with pytest.raises(MoveFailed):
        apply(instance, units)
    assert asked == ["h2"]


@pytest.mark.slow
def test_units_of_a_dead_host_start_side_by_side_but_only_one_of_a_group(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=8, h4=8)
    # c1 and c2 are a group, which h1 and h2 had; c3 and c4 are in none.
    units = DictionaryUnits({"c1": "h1", "c2": "h2", "c3": "h1", "c4": "h1"}, lists=[["c1", "c2"]])
    units.waits = {name: threading.Event() for name in units.where}
    instance.silence("h1", 60)
    instance.silence("h2", 60)
    said: list[str] = []
    moving = mover.Mover(instance.settings, instance.database, [units])
    assert moving.begin(said.append)
    until(lambda: len(units.begun) == 3, what="c3, c4 and one of c1 and c2 begin")
    assert len({"c1", "c2"} & set(units.begun)) == 1
    assert not moving.begin(said.append), "what moves is not begun twice"
    for event in units.waits.values():
        event.set()
    moving.wait()
    assert not {"h1", "h2"} & set(units.where.values())
    assert units.where["c1"] != units.where["c2"]


def test_what_a_dead_host_had_does_not_wait_for_a_move_that_evens_out(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1", "c3": "h1", "c4": "h1", "c5": "h3"})
    units.waits = {name: threading.Event() for name in ("c1", "c2", "c3", "c4")}
    moving = mover.Mover(instance.settings, instance.database, [units])
    assert moving.begin(lambda _: None)
    until(lambda: len(units.begun) == 1, what="one of h1's moves")
    instance.silence("h3", 60)
    assert moving.begin(lambda _: None)
    until(lambda: units.where["c5"] != "h3", what="c5 is elsewhere")
    assert units.moved == [("c5", units.where["c5"])]
    for event in units.waits.values():
        event.set()
    moving.wait()
    assert len(units.moved) == 2, "the rest of the old plan is dropped"
    with mover.locked(instance.settings):
        pass  # it was given up


@pytest.mark.slow
def test_what_is_at_work_is_not_broken_off_because_the_next_plan_fails(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8, h2=8)
    instance.settings = instance.settings.model_copy(update={"placement": Placement(beat_seconds=1)})
    units, planned, propose = DictionaryUnits({"c1": "h1"}), [0], proposals.propose
    units.waits["c1"] = threading.Event()
    instance.silence("h1", 60)

    def away(*arguments: Any) -> proposals.Proposal:
        planned[0] += 1
        if planned[0] == 2:
            raise ConnectionError("PostgreSQL is away")
        return propose(*arguments)

    def log(line: str) -> None:
        if line == "what is to move next is not known yet: PostgreSQL is away":
            units.waits["c1"].set()

    monkeypatch.setattr(mover, "propose", away)
    moves.apply(instance.settings, instance.database, [units], log)
    assert units.moved == [("c1", "h2")]
    planned[0] = 1
    with pytest.raises(ConnectionError):  # nothing moves now
        apply(instance, units)


@pytest.mark.parametrize("silent", [True, False], ids=["starts", "evens out"])
def test_a_log_that_nobody_reads_any_more_ends_no_move(instance: Instance, silent: bool) -> None:
    instance.hosts(h1=8, h2=8)
    units = crowded()
    if silent:
        instance.silence("h1", 60)

    def broken(line: str) -> None:
        raise BrokenPipeError

    moving = mover.Mover(instance.settings, instance.database, [units])
    assert moving.begin(broken)
    until(lambda: moving.wait(0), what="all moves are done")
    assert len(units.moved) == (4 if silent else 2)
    assert len(moving.arrived) == len(units.moved)
    with mover.locked(instance.settings):
        pass  # it was given up


@pytest.mark.slow
@pytest.mark.parametrize("silent", [True, False], ids=["starts", "evens out"])
def test_nothing_is_at_rest_between_a_move_and_what_it_held_up(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"})
    if silent:
        instance.silence("h1", 60)
    moving, rested, plan = mover.Mover(instance.settings, instance.database, [units]), [], mover.Mover._next

    def later(self: mover.Mover, log: Log) -> None:
        looker = threading.Thread(target=lambda: rested.append(self.wait(0)))
        looker.start()
        looker.join(0.5)  # it waits for the guard
        rested.append(False)
        plan(self, log)

    monkeypatch.setattr(mover.Mover, "_next", later)
    assert moving.begin(lambda _: None)
    moving.wait()
    assert rested[0] is False


def test_a_mover_that_is_stopped_begins_nothing(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = crowded()
    units.waits = {name: threading.Event() for name in units.where}
    moving = mover.Mover(instance.settings, instance.database, [units])
    assert moving.begin(lambda _: None)
    until(lambda: len(units.begun) == 1, what="the first of two moves")
    moving.stop()
    for event in units.waits.values():
        event.set()
    moving.wait()
    assert len(units.moved) == 1
    instance.silence("h1", 60)
    assert not moving.begin(lambda _: None)


@pytest.mark.parametrize("left", ["silent", "even", "broken off"])
def test_a_mover_that_is_stopped_while_it_plans_begins_nothing(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    instance.hosts(h1=8, h2=8)
    units = crowded()
    if left == "broken off":
        units.kills = set(units.where)
        with pytest.raises(Killed):
            apply(instance, units)
        units.kills.clear()
    elif left == "silent":
        instance.silence("h1", 60)
    before, moving = rows(instance), mover.Mover(instance.settings, instance.database, [units])

    def stopped(place: object, name: str, what: Callable[..., Any]) -> None:
        def first(*arguments: Any, **named: Any) -> Any:
            moving.stop()
            return what(*arguments, **named)

        monkeypatch.setattr(place, name, first)

    stopped(mover, "propose", proposals.propose)
    stopped(mover, "view", view.view)
    assert not moving.begin(lambda _: None)
    moving.wait()
    assert rows(instance) == before
    assert units.moved == []


@pytest.mark.slow
def test_a_unit_that_cannot_move_keeps_no_other_on_a_host_that_is_gone(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1", "c3": "h1"})
    units.fails = {"c1", "c2"}
    instance.silence("h1", 60)
    with pytest.raises(MoveFailed, match="c1 could not move"):
        apply(instance, units)
    assert units.where["c3"] != "h1"
    assert [each for each in open_alerts(instance) if "could not move" in each] == open_alerts(instance)
    assert len(open_alerts(instance)) == 2
    units.fails.clear()
    apply(instance, units)
    assert "h1" not in units.where.values()
    assert open_alerts(instance) == []


@pytest.mark.slow
def test_failures_use_the_budget_up(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST", timedelta(0))
    instance.hosts(h1=8, h2=8)
    budget(instance, 3)
    units = crowded()
    units.fails = set(units.where)
    for _ in range(3):
        with pytest.raises(MoveFailed):
            apply(instance, units)
    assert apply(instance, units) == []
    assert len(rows(instance)) == 3


def test_one_process_at_a_time_moves(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    with mover.locked(instance.settings), pytest.raises(PlacementBusy):
        apply(instance, crowded())


def test_a_unit_without_a_place_is_an_alert_until_it_has_one(instance: Instance) -> None:
    instance.hosts(h1=1, h2=1)
    units = DictionaryUnits({"c1": "h1", "c2": "h2"}, fixed={"c2"})
    instance.loads({"collector:c1": 1.0})
    (instance.settings.home / "hosts.yaml").write_text(
        (instance.settings.home / "hosts.yaml").read_text().replace("slots: 1}\n", "slots: 1}\n", 1)
    )
    units.where["c0"] = "local"
    units.fixed.add("c0")
    instance.silence("h1", 60)
    apply(instance, units)
    assert "collector:c1 has no place" in open_alerts(instance)[0]
    instance.answers("h1")
    apply(instance, units)
    assert open_alerts(instance) == []


@pytest.mark.slow
@given(data=st.data())
@examples(60)
def test_whatever_happens_budgets_hold_and_groups_stay_apart(data: st.DataObject) -> None:
    """Hosts go and come back, moves fail and are killed, loads change."""
    with made() as instance:
        anything_happens(instance, data)


def anything_happens(instance: Instance, data: st.DataObject) -> None:
    instance.hosts(**{host: data.draw(st.integers(1, 4)) for host in HOSTS})
    names = [f"c{n}" for n in range(1, data.draw(st.integers(2, 5)))]
    where = {name: data.draw(st.sampled_from(HOSTS)) for name in names}
    units = DictionaryUnits(where, lists=[data.draw(st.permutations(names))])
    allowed = data.draw(st.integers(0, 3))
    budget(instance, allowed)
    for _ in range(data.draw(st.integers(1, 6))):
        host = data.draw(st.sampled_from(HOSTS))
        if data.draw(st.booleans()):
            instance.answers(host)
        else:
            instance.silence(host, data.draw(st.integers(0, 60)))
        instance.loads({f"collector:{name}": data.draw(st.floats(0, 4)) for name in names})
        units.fails = set(data.draw(st.lists(st.sampled_from(names), max_size=1)))
        units.kills = set(data.draw(st.lists(st.sampled_from(names), max_size=1)))
        before, apart = len(units.moved), groups_apart(instance, units)
        with contextlib.suppress(MoveFailed, Killed):
            apply(instance, units)
        moved = [name for name, _ in units.moved[before:]]
        finished = 1  # a move that was killed before may be finished first, and its unit planned again
        assert all(count <= 1 + finished for count in Counter(moved).values())
        assert sum(row.counts for row in rows(instance)) <= allowed
        assert groups_apart(instance, units) or not apart


def groups_apart(instance: Instance, units: DictionaryUnits) -> bool:
    """Whether no two of a group, as groups are now, are on one host that answers."""
    view = proposals.propose(instance.settings, instance.database, [units]).view
    there = Counter(
        (each.running.host, each.running.group)
        for each in view.units
        if each.running.group and view.states[each.running.host].state == "open"
    )
    return all(count == 1 for count in there.values())


@pytest.mark.slow
def test_the_same_state_gets_the_same_moves(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=8)
    found = []
    for _ in range(2):
        units = crowded(6)
        apply(instance, units)
        found.append(units.moved)
    assert found[0] == found[1]
    assert found[0]

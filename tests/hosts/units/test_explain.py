"""A unit's place is explained in sentences, with what each other host would cost."""

from __future__ import annotations

import pytest

from sluice_hosts.units import moves, proposals
from sluice_hosts.units.carrying import MoveFailed
from sluice_hosts.units.explain import NoSuchUnit, UnitExplanation, explain
from tests.hosts.units.double import DictionaryUnits, Instance, Killed


def explained(
    instance: Instance, units: DictionaryUnits, name: str | None = None
) -> dict[str, UnitExplanation]:
    proposal = proposals.propose(instance.settings, instance.database, [units])
    return {each.unit: each for each in explain(proposal, moves.history(instance.database), name)}


def test_a_unit_that_moves_says_where_and_why(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"})
    instance.loads({"collector:c1": 1.0, "collector:c2": 1.0})
    (moving,) = (each for each in explained(instance, units).values() if each.moves_to)
    assert moving.moves_to == "h2"
    assert "It is on h1: 2 of its 8 slots are taken." in moving.text
    assert "It uses 1 reference cores." in moving.text
    assert "It is to move to h2, because h1 is " in moving.text
    moves.apply(instance.settings, instance.database, [units], lambda _: None)
    moved = explained(instance, units)[moving.unit]
    assert "It moved there on " in moved.text
    assert "because h1 is " in moved.text


def test_a_unit_that_stays_says_why_and_what_others_would_cost(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8, h3=1)
    units = DictionaryUnits({"c1": "h1", "c2": "h2", "c3": "h3"}, lists=[["c1", "c2"]], fixed={"c3"})
    instance.loads({f"collector:c{n}": 1.0 for n in (1, 2, 3)})
    found = explained(instance, units)["collector:c1"]
    assert found.moves_to is None
    assert "It stays: h1 is " in found.text
    assert (
        "It cannot run on h2: collector:c2 is there, and one takes over when the other fails." in found.text
    )
    assert "It cannot run on h3: all of its 1 slots are taken." in found.text
    assert [each.busiest for each in found.alternatives] == [None, None, None]


def test_another_host_costs_what_would_be_busiest_then(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h2"})
    instance.loads({"collector:c1": 1.0, "collector:c2": 1.0, "collector:here": 0.25})
    (here, other) = explained(instance, units)["collector:c1"].alternatives
    assert (here.host, here.busiest) == ("h2", pytest.approx(1.0))  # 2 of 4, where the mean is 2.25 of 9
    assert here.says == (
        "On h2, h2 would be 100% busier than the mean, and the busiest host, h2, 100% busier than the mean "
        "(now it is as busy as the mean)."
    )
    assert other.busiest is None


def test_fixed_and_silent_and_unknown_units(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h2"}, fixed={"c2"})
    instance.silence("h1", 5)
    found = explained(instance, units)
    assert "It is left alone, because h1 has not answered since " in found["collector:c1"].text
    assert "It is fixed there" in found["collector:c2"].text
    assert found["collector:c2"].alternatives == ()
    with pytest.raises(NoSuchUnit, match="the units are collector:c1, collector:c2, collector:here"):
        explained(instance, units, "c1")


def test_a_failure_says_what_is_avoided_and_why_a_unit_is_left_alone(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"}, broken={"h2"})
    with pytest.raises(MoveFailed):
        moves.apply(instance.settings, instance.database, [units], lambda _: None)
    found = explained(instance, units)
    failed = next(each for each in found.values() if "It stays until " in each.text)
    assert f"UTC: a move of {failed.unit} to h2 failed at " in failed.says[-1]
    assert "(h2 has no Java)" in failed.says[-1]
    for each in ("collector:c1", "collector:c2"):
        assert "It avoids h2 until " in found[each].text


def test_a_unit_that_moves_now_says_so(instance: Instance) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"}, kills={"c1", "c2"})
    with pytest.raises(Killed):
        moves.apply(instance.settings, instance.database, [units], lambda _: None)
    said = "".join(each.text for each in explained(instance, units).values())
    assert said.count("It moves from h1 to h2 now, or that move was broken off.") == 1


def test_a_unit_that_waits_for_the_budget_says_so(instance: Instance) -> None:
    from sluice.runtime.sections import Placement

    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"})
    instance.settings = instance.settings.model_copy(update={"placement": Placement(moves_an_hour=0)})
    said = "".join(each.text for each in explained(instance, units).values())
    assert "the moves of this hour are used up, and 1 wait; it may be one of them" in said

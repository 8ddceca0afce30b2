"""The boxes of the flow: their state, their numbers, and what they say where nothing ever ran."""

from __future__ import annotations

from sluice.monitoring.flow import boxes
from sluice.monitoring.flow.asks import Said
from sluice.monitoring.flow.picture import BOXES, Box, Fact
from sluice.monitoring.flow.platform import picture
from sluice.monitoring.flow.seen import AgentNow, FlowAnswers
from sluice.stack.catalogue import DAEMONS
from sluice.stack.progress import TopicError
from tests.monitoring.flow.made import AT, SECOND, agents, healthy, nothing, report, seen, speed


def box(found: FlowAnswers, key: str) -> Box:
    (one,) = (each for each in picture(found).boxes if each.key == key)
    return one


def facts(found: FlowAnswers, key: str) -> dict[str, object]:
    return {fact.label: fact.value for fact in box(found, key).facts}


def test_where_all_is_well_all_works() -> None:
    whole = picture(seen())
    assert [each.key for each in whole.boxes] == list(BOXES)
    assert {each.state for each in whole.boxes} == {"works"}
    assert {each.state for each in whole.daemons} == {"works"}
    assert whole.state == "works"


def test_a_box_is_as_bad_as_what_hurts_in_it_and_others_stay() -> None:
    sick = seen(daemons=healthy(kafka="no broker"), lag=Said(report(70.0)))
    states = {each.key: each.state for each in picture(sick).boxes}
    assert states == dict.fromkeys(BOXES, "works") | {"topics": "broken", "speed": "late"}
    assert picture(sick).state == "broken"


def test_rates_are_of_now() -> None:
    assert facts(seen(), "edges")["Rate"] == 2.0  # 60 blocks a minute of each of two agents
    assert facts(seen(), "speed")["Rate"] == 11.0
    assert facts(seen(), "topics")["Rate"] == 10.0
    assert facts(seen(), "archive")["Rate"] == 10.0


def test_the_lag_is_in_lines_and_seconds() -> None:
    found = box(seen(), "speed").facts
    lag = next(fact for fact in found if fact.label == "Lag")
    assert lag == Fact("Lag", 80.0, unit="lines, about (8 records)")  # a record has ten lines
    assert facts(seen(), "archive")["Oldest waits"] == 1.5


def test_the_lag_of_a_kafka_that_is_away_is_not_known() -> None:
    away = seen(lag=Said(report(), error="no broker"))
    assert facts(away, "speed")["Lag"] is None
    assert facts(away, "topics")["Rate"] is None


def test_the_last_success_of_each_box() -> None:
    assert facts(seen(), "edges")["Last sent"] == AT
    assert facts(seen(), "speed")["Last commit"] == AT - 2 * SECOND
    assert facts(seen(), "projector")["Last results"] == AT - 2 * SECOND
    assert facts(seen(), "archive")["Newest line"] == AT - 20 * SECOND
    assert facts(seen(), "nightly")["Last success"] == AT - 3600 * SECOND
    assert facts(seen(), "reconcile")["Last day published"] == AT - 86_400 * SECOND


def test_fill_and_failures_of_a_tier() -> None:
    busy = seen(agents=Said(agents(fill=0.75, failed=3)))
    assert (facts(busy, "edges")["Fill"], facts(busy, "edges")["Failed sends"]) == (0.75, 3.0)
    assert (facts(busy, "collectors")["Fill"], facts(busy, "collectors")["Failed sends"]) == (0.25, 0.0)
    (web1, *_) = picture(busy).agents
    assert (web1.name, web1.tier, web1.rate) == ("web1", "edges", 1.0)


def test_the_newest_error_of_the_speed_layer_is_shown() -> None:
    assert facts(seen(), "speed")["Newest error"] == "none"
    failed = speed()
    failed.topics["logs"].errors = [TopicError(at=AT, message="no block " * 40)]
    assert str(facts(seen(speed=failed), "speed")["Newest error"]).startswith("no block no")


def test_each_line_has_the_points_of_24_hours() -> None:
    for each in picture(seen()).boxes:
        if each.key != "nightly":  # nothing was computed lately
            assert any(point is not None for line in each.lines for point in line.points), each.key


def test_a_platform_that_never_ran_is_not_known_and_says_what_to_do() -> None:
    whole = picture(nothing())
    assert whole.state == "unknown"
    assert {each.state for each in whole.boxes} == {"unknown"}
    assert "speed_layer" in box(nothing(), "speed").empty
    empty = seen(agents=Said([]))
    assert "include/collection.yaml" in box(empty, "edges").empty


def test_a_daemon_shows_when_it_started() -> None:
    found = {each.name: each.started for each in boxes.daemons(seen())}
    assert found == dict.fromkeys(DAEMONS, AT - 300 * SECOND)
    unknown = boxes.daemons(seen(programs=Said(None, error="nothing runs")))
    assert {each.started for each in unknown} == {None}


def test_what_agents_do_not_tell_is_not_known() -> None:
    silent = [
        AgentNow(name, tier, answers)
        for name, tier, answers in (
            ("web1", "edge", False),
            ("web2", "edge", None),
            ("collector1", "collector", True),
        )
    ]
    found = facts(seen(agents=Said(silent)), "edges")
    assert [found[name] for name in ("Rate", "In channels", "Fill", "Failed sends")] == [None] * 4
    known = seen(agents=Said([*agents(failed=3)[:1], silent[1]]))
    assert facts(known, "edges")["Failed sends"] == 3.0
    assert [(row.failed, row.rate) for row in picture(known).agents] == [(3, 1.0), (None, None)]


def test_without_figures_no_rate_is_known() -> None:
    unknown = seen(figures={})
    assert (facts(unknown, "speed")["Rate"], facts(unknown, "archive")["Rate"]) == (None, None)

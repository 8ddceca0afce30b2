"""Each listener is told what it does not know, once, and after a break what it missed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.storage.tables.news import NewsSnapshot, Published, TopicNews
from sluice.storage.tables.past import TopicPast

TASKS = {"hits": ("logs", (1, 1)), "sizes": ("logs", (2, 3)), "other": ("shop", (3, 1))}
NEVER, UNTOUCHED = Published(), TopicPast()
PUBLISHED = Published("0a0b0c0d", date(2015, 5, 17), datetime(2015, 5, 18, 1, tzinfo=UTC))


def look(
    commit: int,
    changed: dict[str, int],
    published: Published = NEVER,
    since: int = 0,
    past: TopicPast = UNTOUCHED,
) -> NewsSnapshot:
    """Topic logs as of a commit; nothing ever happens in shop."""
    own = {TASKS[name][1]: seq for name, seq in changed.items()}
    logs = TopicNews(commit, own, since, published, past)
    return NewsSnapshot(TASKS, {"logs": logs, "shop": TopicNews(0, {}, 0, Published())})


def filled(*days: tuple[str, int]) -> TopicPast:
    """One revision a filled day of June 2015, each of a task, in this order."""
    own = {(TASKS[name][1], date(2015, 6, day)): at for at, (name, day) in enumerate(days, 1)}
    return TopicPast(len(days), own)


def listener(only: list[str] | None = None, known: str = "") -> Any:
    from sluice_airflow.api.told import EventListener, position

    return EventListener(only, position(known))


def told(own: Any, at: NewsSnapshot) -> list[tuple[str, dict[str, Any], str]]:
    """Kind, data and id of each event."""
    found = []
    for text in own.news(at):
        fields = dict(line.split(": ", 1) for line in text.decode().strip().splitlines())
        found.append((fields["event"], json.loads(fields["data"]), fields["id"]))
    return found


def test_the_first_events_say_how_things_stand() -> None:
    assert told(listener(), look(7, {}, PUBLISHED, since=7)) == [
        ("commit", {"topic": "logs", "commit": 7, "tasks": {"hits": 1, "sizes": 3}}, "logs=7."),
        (
            "publication",
            {
                "topic": "logs",
                "day": "2015-05-17",
                "at": "2015-05-18T01:00:00Z",
                "tasks": {"hits": 1, "sizes": 3},
            },
            "logs=7.0a0b0c0d",
        ),
    ]


def test_later_ones_name_only_the_tasks_that_changed() -> None:
    own = listener()
    told(own, look(1, {"hits": 1}))
    assert told(own, look(1, {"hits": 1})) == []
    ((_, data, _),) = told(own, look(2, {"hits": 1, "sizes": 2}))
    assert data == {"topic": "logs", "commit": 2, "tasks": {"sizes": 3}}
    assert told(own, look(3, {"hits": 1, "sizes": 2})) == []  # a commit that changed nothing
    only = listener(["hits"])
    told(only, look(1, {"hits": 1}))
    assert told(only, look(2, {"hits": 1, "sizes": 2})) == []
    assert [kind for kind, _, _ in told(only, look(2, {"hits": 1, "sizes": 2}, PUBLISHED))] == ["publication"]


def test_after_a_break_only_what_is_newer_is_told() -> None:
    at = look(9, {"hits": 4, "sizes": 8}, PUBLISHED)
    ((_, data, _),) = told(listener(known="logs=5.0a0b0c0d"), at)
    assert data == {"topic": "logs", "commit": 9, "tasks": {"sizes": 3}}
    assert told(listener(known="logs=9.0a0b0c0d"), at) == []
    assert [kind for kind, _, _ in told(listener(known="logs=9."), at)] == ["publication"]
    # Nobody knows what changed before the server began, or what another database's commits were.
    for known in ("logs=2.0a0b0c0d", "logs=12.0a0b0c0d"):
        ((_, data, _),) = told(listener(known=known), look(9, {"sizes": 8}, PUBLISHED, since=3))
        assert set(data["tasks"]) == {"hits", "sizes"}


def test_a_backfill_names_its_tasks_and_days_once() -> None:
    own, only = listener(), listener(["sizes"])
    for each in (own, only):
        told(each, look(1, {}, past=filled(("hits", 1))))  # what was filled before is no news
    after = look(1, {}, past=filled(("hits", 1), ("hits", 3), ("sizes", 2), ("hits", 2)))
    said = {"topic": "logs", "days": ["2015-06-02", "2015-06-03"], "tasks": {"hits": 1, "sizes": 3}}
    assert told(own, after) == [("backfill", said, "logs=1..4.,shop=0.")]
    assert told(own, after) == []
    assert [data["days"] for _, data, _ in told(only, after)] == [["2015-06-02"]]
    assert told(listener(known="logs=1..4."), after) == []
    ((_, data, _),) = told(listener(known="logs=1..3."), after)
    assert (data["days"], data["tasks"]) == (["2015-06-02"], {"hits": 1})


def test_another_database_has_no_backfills_to_tell_of() -> None:
    own = listener()
    told(own, look(1, {}, past=filled(("hits", 1), ("hits", 2))))
    assert told(own, look(1, {}, past=filled(("hits", 1)))) == []
    assert [kind for kind, _, _ in told(own, look(1, {}, past=filled(("hits", 1), ("sizes", 2))))] == [
        "backfill"
    ]


def test_superseded_days_are_told_as_they_stand() -> None:
    days = tuple(date(2015, 5, n) for n in (17, 18))
    own = listener()
    found = told(own, look(1, {}, past=TopicPast(superseded=days)))[1:]
    said = {"topic": "logs", "days": ["2015-05-17", "2015-05-18"], "tasks": {"hits": 1, "sizes": 3}}
    assert [(kind, data) for kind, data, _ in found] == [("superseded", said)]
    at = found[-1][2]
    assert told(own, look(1, {}, past=TopicPast(superseded=days))) == []
    assert told(listener(known=at), look(1, {}, past=TopicPast(superseded=days))) == []
    for still in (days[1:], ()):
        ((kind, data, at),) = told(own, look(1, {}, past=TopicPast(superseded=still)))
        assert (kind, data["days"]) == ("superseded", [day.isoformat() for day in still])
    assert at == "logs=1.,shop=0."


@pytest.mark.slow
@given(text=st.text(max_size=40) | st.sampled_from(["logs=1", "=1.", "logs=-1.", "logs=9.zz", "," * 20_000]))
def test_a_position_that_is_none_of_ours_is_no_position(text: str) -> None:
    assert told(listener(known=text), look(1, {}))[0][0] == "commit"


STEPS = ["hits", "sizes", "other topic", "publish", "fill", "supersede", "break"]


@given(steps=st.lists(st.sampled_from(STEPS), max_size=12))
def test_nothing_is_missed_and_nothing_is_told_twice(steps: list[str]) -> None:
    """Whatever happens, and whenever the connection breaks, in which case the last id comes back."""
    commit, changed, published, past = 1, {"hits": 1, "sizes": 1}, Published(), TopicPast()
    own = listener()
    last = told(own, look(commit, changed, published, past=past))[-1][2]
    expected: list[set[str]] = []
    found: list[set[str]] = []
    for number, step in enumerate(steps):
        if step in changed:
            commit += 1
            changed = {**changed, step: commit}
            expected.append({step})
        elif step == "publish":
            published = Published(f"{number:08x}", date(2015, 5, 17), datetime(2015, 5, 18, tzinfo=UTC))
            expected.append({"hits", "sizes"})
        elif step == "fill":
            at = past.revision + 1
            past = replace(past, revision=at, filled={**past.filled, ((1, 1), date(2015, 6, 1)): at})
            expected.append({"hits"})
        elif step == "supersede":
            past = replace(past, superseded=(*past.superseded, date(2015, 5, 1 + number)))
            expected.append({"hits", "sizes"})
        elif step == "break":
            own = listener(known=last)
        news = told(own, look(commit, changed, published, past=past))
        found += [set(data["tasks"]) for _, data, _ in news]
        last = news[-1][2] if news else last
    assert found == expected


@pytest.mark.parametrize("name", ["hits", "gone"])
def test_a_task_that_is_gone_is_not_told_of(name: str) -> None:
    gone = NewsSnapshot({}, {})
    assert told(listener([name]), gone) == []

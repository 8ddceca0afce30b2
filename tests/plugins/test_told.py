"""Each listener is told what it does not know, once, and after a break what it missed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.storage.news import Look, Published, TopicNews

TASKS = {"hits": ("logs", (1, 1)), "sizes": ("logs", (2, 3)), "other": ("shop", (3, 1))}
NEVER = Published()
PUBLISHED = Published("0a0b0c0d", date(2015, 5, 17), datetime(2015, 5, 18, 1, tzinfo=UTC))


def look(commit: int, changed: dict[str, int], published: Published = NEVER, since: int = 0) -> Look:
    """Topic logs as of a commit; nothing ever happens in shop."""
    own = {TASKS[name][1]: seq for name, seq in changed.items()}
    return Look(
        TASKS, {"logs": TopicNews(commit, own, since, published), "shop": TopicNews(0, {}, 0, Published())}
    )


def listener(only: list[str] | None = None, known: str = "") -> Any:
    from sluice_airflow.api.told import Listener, position

    return Listener(only, position(known))


def told(own: Any, at: Look) -> list[tuple[str, dict[str, Any], str]]:
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


@given(text=st.text(max_size=40) | st.sampled_from(["logs=1", "=1.", "logs=-1.", "logs=9.zz", "," * 20_000]))
def test_a_position_that_is_none_of_ours_is_no_position(text: str) -> None:
    assert told(listener(known=text), look(1, {}))[0][0] == "commit"


@given(steps=st.lists(st.sampled_from(["hits", "sizes", "other topic", "publish", "break"]), max_size=12))
def test_nothing_is_missed_and_nothing_is_told_twice(steps: list[str]) -> None:
    """Whatever happens, and whenever the connection breaks, in which case the last id comes back."""
    commit, changed, published = 1, {"hits": 1, "sizes": 1}, Published()
    own = listener()
    last = told(own, look(commit, changed, published))[-1][2]
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
        elif step == "break":
            own = listener(known=last)
        news = told(own, look(commit, changed, published))
        found += [set(data["tasks"]) for _, data, _ in news]
        last = news[-1][2] if news else last
    assert found == expected


@pytest.mark.parametrize("name", ["hits", "gone"])
def test_a_task_that_is_gone_is_not_told_of(name: str) -> None:
    gone = Look({}, {})
    assert told(listener([name]), gone) == []

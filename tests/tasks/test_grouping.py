"""`grouping:` in tasks and topics: what may be written, and that it makes no new version."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from sluice.grouping import STRATEGIES
from sluice.tasks import TaskSpec, TasksRefused, TopicSpec, parse_documents, parse_tasks
from sluice.tasks.changes import compare
from sluice.tasks.grouping import AUTO, NAMES, GroupingSpec
from sluice.tasks.lists import ValueLists
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicInUse, TopicStore
from tests.engine.samples import spec
from tests.tasks.test_topics import json_topic

PARAMETERS = {"strategy": "planned", "half_life": 2, "buckets": 1024}


def test_every_strategy_may_be_named_and_auto() -> None:
    assert (AUTO, *STRATEGIES) == NAMES
    for name in NAMES:
        assert spec(grouping=name).grouping == GroupingSpec(strategy=name)


@pytest.mark.parametrize("written", ["auto", "kg2", PARAMETERS, {"strategy": "dkg", "once": False}])
def test_it_is_shown_as_it_was_written(written: Any) -> None:
    task = spec(grouping=written)
    assert task.document()["grouping"] == written
    assert parse_documents([task.document()]) == [task]
    assert TaskSpec.model_validate(task.model_dump(mode="json", exclude_none=True)) == task
    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301
    assert isinstance(hash(task), int)
    assert spec(grouping={"strategy": "kg2"}).document()["grouping"] == "kg2"
    assert "grouping" not in spec().document()


def test_yaml_and_sql_tasks_take_it_alike() -> None:
    (task,) = parse_tasks(
        "- name: hits\n  grouping: {strategy: planned, half_life: 2}\n"
        "  sql: SELECT count(*) FROM logs GROUP BY period('60s')\n"
    )
    assert task.grouping == spec(grouping={"strategy": "planned", "half_life": 2.0}).grouping
    assert parse_documents([task.document()]) == [task]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("fast", "grouping 'fast' is not known: use one of auto, key, shuffle, pkg"),
        ({"strategy": "fast"}, "grouping 'fast' is not known"),
        ({"half_life": 2}, "grouping without a strategy: add strategy: auto"),
        ({"strategy": ["key"]}, "grouping ['key'] is not known"),
        (
            {"strategy": "planned", "speed": 1},
            "planned has no parameter 'speed': use buckets, grain",
        ),
        ({"strategy": "key", "seed": 1}, "grouping key has no parameter 'seed': it has none, so drop it"),
        ({"strategy": "auto", "margin": 1}, "grouping auto has no parameter 'margin'"),
        ({"strategy": "planned", "half_life": 0}, "half_life is 0; it must be 0.1 to 1,000"),
        ({"strategy": "planned", "half_life": float("nan")}, "half_life is nan; it must be 0.1 to 1,000"),
        ({"strategy": "planned", "half_life": 10**400}, "it must be 0.1 to 1,000"),
        ({"strategy": "planned", "half_life": "2"}, "half_life is '2'; it must be a number"),
        ({"strategy": "planned", "half_life": True}, "half_life is True; it must be a number"),
        ({"strategy": "planned", "buckets": 100.5}, "buckets is 100.5; it must be a whole number"),
        ({"strategy": "planned", "buckets": None}, "buckets is None; it must be a whole number"),
        ({"strategy": "dkg", "once": 1}, "once is 1; it must be true or false"),
        ({"strategy": "tag", "theta": 0.01}, "theta is 0.01; it must be at least 2/counters"),
        ({"strategy": "planned", 7: 1}, "has no parameter 7"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(written: Any, says: str) -> None:
    with pytest.raises(TasksRefused) as refused:
        spec(grouping=written)
    ((pointer, message),) = [(p.pointer, p.message) for p in refused.value.problems]
    assert pointer == "/0/grouping"
    assert says in message


@pytest.mark.parametrize("written", [7, ["key"], True])
def test_what_is_neither_a_name_nor_keys_and_values(written: Any) -> None:
    with pytest.raises(TasksRefused) as refused:
        spec(grouping=written)
    assert {p.pointer for p in refused.value.problems} == {"/0/grouping"}


@pytest.mark.slow
def test_a_name_alone_loads_no_strategy() -> None:
    code = (
        "import sys; from sluice.tasks.grouping import GroupingSpec; "
        "[GroupingSpec(strategy=n) for n in ('auto', 'planned')]; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_tasks_that_differ_in_grouping_count_the_same() -> None:
    one, other = spec(grouping="key"), spec(grouping="tag")
    assert one != other
    assert one.counts_as(other)
    assert not one.counts_as(spec(grouping="key", period="1h"))


def test_a_diff_shows_the_same_version() -> None:
    found = compare(spec(), spec(grouping="planned"), 3)
    assert (found.action, found.fields) == ("changed", ("grouping",))
    assert "+++ sample version 3" in found.text
    assert "+  grouping: planned" in found.text
    assert "version 4" in compare(spec(), spec(grouping="planned", period="1h"), 3).text


def test_a_change_of_grouping_is_stored_and_makes_no_version(tasks: TaskStore, unique: str) -> None:
    def applied(**fields: Any) -> tuple[str, int]:
        (change,) = tasks.apply([spec(name=unique, topic=unique, **fields)], "ann")
        return change.action, change.version

    assert applied() == ("created", 1)
    (before,) = tasks.active(unique)
    assert before.spec.grouping is None
    assert applied(grouping=PARAMETERS) == ("changed", 1)
    assert applied(grouping=PARAMETERS) == ("unchanged", 1)
    (after,) = tasks.active(unique)  # as for the next batch: the store had read this version before
    assert (after.label, after.spec.grouping) == (before.label, spec(grouping=PARAMETERS).grouping)
    assert tasks.get(unique).spec == after.spec == tasks.version(after.task_id, 1).spec
    assert applied(grouping="kg2", period="1h") == ("changed", 2)
    assert applied(period="1h") == ("changed", 2)
    assert tasks.active(unique)[0].spec.grouping is None
    assert [(e.version, e.action, e.detail) for e in tasks.history(unique)] == [
        (1, "created", ""),
        (1, "changed", "grouping"),
        (2, "changed", "period, grouping"),
        (2, "changed", "grouping"),
    ]


def test_a_paused_task_stays_paused(tasks: TaskStore, unique: str) -> None:
    tasks.apply([spec(name=unique, topic=unique)], "ann")
    tasks.pause(unique, "ann")
    tasks.apply([spec(name=unique, topic=unique, grouping="key")], "ann")
    assert tasks.get(unique).state == "paused"
    assert tasks.active(unique) == []


def test_a_new_version_because_of_a_list_keeps_its_grouping(
    tasks: TaskStore, lists: ValueLists, unique: str
) -> None:
    lists.apply(unique, ["200"], "ann")
    status = {"extract": {"delimiter": " ", "index": 8}, "filter": {"mode": "white", "set": unique}}
    tasks.apply([spec(name=unique, topic=unique, where=[status], grouping="tag")], "ann")
    lists.apply(unique, ["200", "304"], "ann")
    (task,) = tasks.active(unique)
    assert (task.version, task.spec.grouping) == (2, GroupingSpec(strategy="tag"))


def test_a_topics_grouping_may_change_after_its_first_line(topics: TopicStore, unique: str) -> None:
    assert topics.get(unique).grouping is None
    topics.apply(json_topic(unique), "ann")
    topics.freeze(unique)
    assert topics.apply(json_topic(unique, grouping="planned"), "ann") == "changed"
    assert topics.get(unique) == json_topic(unique, grouping="planned")
    assert topics.apply(json_topic(unique, grouping="planned"), "ann") == "unchanged"
    with pytest.raises(TopicInUse):
        topics.apply(TopicSpec(name=unique, grouping=GroupingSpec(strategy="planned")), "ann")

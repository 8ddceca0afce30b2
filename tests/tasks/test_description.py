"""A task's description: what may be written, and that it makes no new version."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import ROOT
from sluice.tasks import TaskSpec, TasksRefused, parse_documents, parse_tasks
from sluice.tasks.changes import compare
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec

SQL = {"name": "sample", "sql": "SELECT status, count(*) FROM logs GROUP BY status, period('1m')"}


@pytest.mark.parametrize("text", ["x", "Größe in \N{SNOWMAN} & 'quotes', ${x}", "\N{BAR CHART}" * 500])
def test_it_is_shown_as_it_was_written(text: str) -> None:
    for task in (spec(description=text), *parse_documents([{**SQL, "description": text}])):
        assert task.description == task.document()["description"] == text
        assert parse_documents([task.document()]) == [task]
        assert TaskSpec.model_validate(task.model_dump(mode="json", exclude_none=True)) == task
    assert "description" not in spec().document()


def test_a_block_of_yaml_is_one_line() -> None:
    (task,) = parse_tasks(
        "- name: a\n  description: >\n    Hits of\n    every page\n"
        "  topic: logs\n  period: 1m\n  metrics: [count]\n"
    )
    assert task.description == "Hits of every page"


@pytest.mark.parametrize(
    "written",
    ["", " ", "x" * 501, "a\nb", "a\tb", "\x1b[31m", "a\x7f", "a\x85b", "a\u2028b", "a\u202eb", 7, ["a"]],
)
def test_a_description_that_is_no_line_of_text_is_refused(written: Any) -> None:
    for document in ({**spec().document(), "description": written}, {**SQL, "description": written}):
        with pytest.raises(TasksRefused) as refused:
            parse_documents([document])
        assert {problem.pointer for problem in refused.value.problems} == {"/0/description"}


@given(st.text(max_size=520))
def test_what_is_taken_has_no_control_character_and_is_bounded(text: str) -> None:
    try:
        taken = spec(description=text).description
    except TasksRefused:
        return
    assert taken == text.strip()
    assert 0 < len(taken) <= 500
    assert not {unicodedata.category(character) for character in taken} & {"Cc", "Zl", "Zp"}


def test_two_tasks_that_differ_in_their_description_count_the_same() -> None:
    one, other = spec(description="a"), spec(description="b")
    assert one != other
    assert one.counts_as(other)
    found = compare(one, other, 3)
    assert (found.action, found.fields) == ("changed", ("description",))
    assert "+++ sample version 3" in found.text


def test_a_change_of_it_is_stored_and_makes_no_version(tasks: TaskStore, unique: str) -> None:
    def applied(**fields: Any) -> tuple[str, int]:
        (change,) = tasks.apply([spec(name=unique, topic=unique, **fields)], "ann")
        return change.action, change.version

    assert applied(description="a") == ("created", 1)
    counted = tasks.active(unique)
    assert applied(description="b") == ("changed", 1)
    assert applied(description="b") == ("unchanged", 1)
    assert tasks.get(unique).spec.description == "b"
    assert tasks.active(unique) == counted  # nothing changes for the next batch
    assert applied() == ("changed", 1)
    assert tasks.get(unique).spec.description is None
    assert applied(description="a", period="1h") == ("changed", 2)
    assert [(e.version, e.detail) for e in tasks.history(unique)] == [
        (1, ""),
        (1, "description"),
        (1, "description"),
        (2, "description, period"),
    ]


@pytest.mark.parametrize("file", ["tasks.yaml", "examples/tasks.yaml"])
def test_every_task_that_comes_with_the_platform_has_one(file: str) -> None:
    assert [t.name for t in parse_tasks((ROOT / "include" / file).read_text()) if not t.description] == []

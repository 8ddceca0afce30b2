"""A tag names one answer: it changes with the query, the task, a commit or a publication that matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results.pinned import Pinned
from sluice.results.query import BadQuery, Query, Top, Where
from sluice.results.reader import read
from tests.examples import examples
from tests.results.questions import DAY_NUMBER, FIRST, LINES, Given, query, stored, task
from tests.results.stored import DAY, Stored

TWO_DAYS: list[Given] = [(1, 0, 0, 1), (2, 1, 1, 2), (30, 0, 0, 3)]
FINAL_DAY = {"since": FIRST, "until": FIRST + DAY}


def layers(final: frozenset[int] = frozenset({DAY_NUMBER})) -> Stored:
    return stored(task(), TWO_DAYS, final)


def tag(own: Stored, **fields: Any) -> str:
    return Pinned(own, query(**fields)).tag("json")


QUERIES = [
    {},
    FINAL_DAY,
    {"since": FIRST + 1},
    {"where": (Where(dimension="client", values=("c0",)),)},
    {"where": (Where(dimension="client", prefix="c0"),)},
    {"metrics": ("count",)},
    {"top": Top(n=1, metric="count")},
    {"dimensions": ("client",)},
    {"period": "1d"},
    {"limit": 3},
    {"limit": 3, "offset": 1},
]


def test_queries_and_formats_have_tags_of_their_own() -> None:
    own = layers()
    tags = [Pinned(own, query(**fields)).tag(style) for fields in QUERIES for style in ("json", "csv")]
    assert len(set(tags)) == len(tags)
    assert tags == [Pinned(own, query(**f)).tag(style) for f in QUERIES for style in ("json", "csv")]
    assert own.read_blocks == 0


def changes() -> list[Callable[[Stored], None]]:
    def commit(own: Stored) -> None:
        own.head += 1

    def publication(own: Stored) -> None:
        own.final_days = own.final_days | {DAY_NUMBER + 1}

    def superseded(own: Stored) -> None:
        own.superseded = frozenset({DAY_NUMBER})

    def version(own: Stored) -> None:
        own.of = replace(own.of, version=2)

    return [commit, publication, superseded, version]


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.__name__)
def test_the_tag_of_what_is_open_changes(change: Callable[[Stored], None]) -> None:
    own = layers()
    pinned = Pinned(own, query())
    before = pinned.tag("json")
    assert pinned.holds()
    change(own)
    assert tag(own) != before
    assert change.__name__ == "version" or not pinned.holds()


def test_a_commit_changes_nothing_of_a_published_day() -> None:
    own = layers()
    before = Pinned(own, query(**FINAL_DAY))
    own.head += 1
    assert before.is_final
    assert before.holds()
    assert tag(own, **FINAL_DAY) == before.tag("json")


@given(lines=LINES, final=st.frozensets(st.integers(DAY_NUMBER, DAY_NUMBER + 2)))
@examples(20)
def test_an_answer_is_the_same_with_pinned_sides(lines: list[Given], final: frozenset[int]) -> None:
    own = stored(task(), lines, final)
    pinned = Pinned(own, query())
    assert read(pinned, query())[0].table().equals(read(own, query())[0].table())


def test_what_a_task_cannot_answer_is_refused_before_anything_is_read() -> None:
    with pytest.raises(BadQuery, match="colour"):
        Pinned(layers(), Query(tasks=("sample",), metrics=("colour",)))

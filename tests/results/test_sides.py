"""Sides that were read before are the same as sides that are read now, while nothing changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sluice.results.periods import ALWAYS
from sluice.results.sides import KnownSides, window
from sluice.storage.tables.finals import Sides
from tests.examples import examples
from tests.results.questions import DAY_NUMBER, DAYS, FIRST, LINES, Given, stored, task
from tests.results.stored import Stored

HOUR = 3_600_000


@dataclass
class Book:
    """The book of one version, whose moment is what changed last."""

    of: Stored
    now: int = 0
    read: list[tuple[int, int]] = field(default_factory=list)

    def moment(self) -> str:
        return str(self.now)

    def sides(self, version: tuple[int, int], since: int, until: int) -> Sides:
        self.read.append((since, until))
        found = self.of.sides(self.of.of, since, until)
        return Sides(
            found.final, found.superseded & {r.first for r in found.final}, found.open,
            found.state, {}, self.now, str(self.now),
        )  # fmt: skip


@given(
    given=LINES,
    final=DAYS,
    superseded=DAYS,
    asked=st.lists(st.tuples(*[st.integers(-1, 73)] * 2), max_size=8),
)
@examples(40)
def test_a_part_of_a_window_is_what_would_have_been_read(
    given: list[Given], final: frozenset[int], superseded: frozenset[int], asked: list[tuple[int, int]]
) -> None:
    layers = stored(task(), given, final)
    layers.superseded = superseded & final
    book, known = Book(layers), KnownSides()
    for number, hours in enumerate(asked):
        book.now = number // 3
        since, until = (FIRST + hour * HOUR for hour in sorted(hours))
        found, wanted = known.of(book, (1, 1), since, until), book.sides((1, 1), since, until)
        assert found == wanted
        assert (found.head, found.moment) == (book.now, str(book.now))


@given(since=st.integers(-(1 << 45), 1 << 45), length=st.integers(1, 1 << 41))
def test_a_window_contains_its_time_and_is_at_most_four_times_as_long(since: int, length: int) -> None:
    first, last = window(since, since + length)
    assert first <= since < since + length <= last
    assert last - first <= 4 * length


def test_times_without_an_end_stay_as_they_are() -> None:
    assert window(ALWAYS.start, ALWAYS.stop) == (ALWAYS.start, ALWAYS.stop)
    assert window(7, 7) == (7, 7)


def test_similar_questions_are_answered_from_one_look_until_something_changes() -> None:
    book, known = Book(stored(task(), [(1, 0, 0, 1)])), KnownSides()
    begin = DAY_NUMBER * 24 * HOUR
    for minute in range(5):
        known.of(book, (1, 1), begin + minute, begin + minute + HOUR)
    assert len(book.read) == 1
    known.of(book, (1, 2), begin, begin + HOUR)
    assert len(book.read) == 2
    book.now += 1
    known.of(book, (1, 1), begin, begin + HOUR)
    assert len(book.read) == 3

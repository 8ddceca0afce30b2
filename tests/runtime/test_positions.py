"""Readers of a log that loses its end, or is made again, see what is left once, and know what is gone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.positions import (
    Era,
    Hole,
    PartitionLog,
    Piece,
    era_of,
    offset_of,
    position_at,
    shown,
)


def log(*eras: tuple[int, int, int]) -> PartitionLog:
    """The eras (begins, reached, number of the topic's id)."""
    return PartitionLog(
        tuple(Era(n, f"id{of}", begins, n, reached) for n, (begins, reached, of) in enumerate(eras))
    )


CUT = log((0, 0, 0), (90, 100, 0))


def test_a_position_of_the_first_generation_is_the_offset() -> None:
    assert position_at(0, 90) == 90
    assert (era_of(position_at(3, 7)), offset_of(position_at(3, 7))) == (3, 7)
    assert (shown(90), shown(position_at(1, 90))) == ("90", "90 of era 1")
    assert log((0, 0, 0)).position(5) == 5


def test_what_came_to_offsets_that_were_read_has_other_positions() -> None:
    assert (CUT.position(89), CUT.position(90)) == (89, position_at(1, 90))
    shift = position_at(1, 0)
    assert list(CUT.pieces(80, CUT.position(120))) == [Piece(80, 90, 0), Piece(90, 120, shift)]
    assert list(CUT.pieces(100, CUT.position(120))) == [Piece(90, 120, shift)]
    assert CUT.records(80, CUT.position(120)) == 40
    assert CUT.given(120) == 130


def test_what_is_gone_is_named() -> None:
    following = position_at(1, 90)
    assert list(CUT.holes(80, CUT.position(120))) == [Hole(90, 100, 10), Hole(100, following, 0)]
    assert list(CUT.holes(100, CUT.position(120))) == [Hole(100, following, 0)]
    assert CUT.read_and_gone(100) == (90, 100)
    assert CUT.read_and_gone(85) is None
    assert CUT.read_and_gone(following) is None


def test_a_topic_that_was_made_again_has_nothing_of_the_one_before() -> None:
    again = log((0, 0, 0), (0, 50, 1))
    assert list(again.pieces(20, again.position(10))) == [Piece(0, 10, position_at(1, 0))]
    assert list(again.holes(20, again.position(10))) == [Hole(20, 50, 30), Hole(50, position_at(1, 0), 0)]
    assert again.read_and_gone(20) == (0, 20)


def test_a_cut_below_an_earlier_one() -> None:
    twice = log((0, 0, 0), (90, 100, 0), (50, 95, 0))
    assert [each.era for each in twice.standing] == [0, 2]
    assert list(twice.pieces(30, twice.position(60))) == [Piece(30, 50, 0), Piece(50, 60, position_at(2, 0))]
    assert [each.lost for each in twice.holes(30, twice.position(60))] == [50, 0, 5, 0]


def test_so_many_records_further() -> None:
    end = CUT.position(120)
    assert CUT.after(80, 5, end) == 85
    assert CUT.after(80, 12, end) == position_at(1, 92)
    assert CUT.after(80, 99, end) == end
    assert CUT.after(end, 5, end) == end


class Simulated:
    """A log whose end is lost, and two readers of it."""

    def __init__(self, drawn: random.Random) -> None:
        self.drawn, self.records, self.given = drawn, list[int](), 0
        self.log = PartitionLog((Era(0, "id0", 0, 0),))
        self.at, self.read = [0, 0], [list[int](), list[int]()]
        self.placed: dict[int, int] = {}

    def append(self) -> None:
        for _ in range(self.drawn.randint(1, 9)):
            self.records.append(self.given)
            self.given += 1

    def lose(self, *, again: bool) -> None:
        """Lose the log's end, or make the topic again, and go on as `eras.looked_at` does."""
        cut = 0 if again else self.drawn.randint(0, len(self.records))
        del self.records[cut:]
        newest = self.log.newest
        own = [offset_of(at) for at in self.at if era_of(at) == newest.era]
        reached, topic = max(own, default=newest.begins), f"id{self.given}" if again else newest.topic_id
        if reached > cut:
            after = Era(newest.era + 1, topic, cut, newest.epoch + 1, reached)
            self.log = PartitionLog((*self.log.eras, after))
        else:
            after = Era(newest.era, topic, newest.begins, newest.epoch + 1, newest.reached)
            self.log = PartitionLog((*self.log.eras[:-1], after))

    def go_on(self, who: int, records: int) -> None:
        end = self.log.position(len(self.records))
        to = self.log.after(self.at[who], records, end)
        for piece in self.log.pieces(self.at[who], to):
            for offset in range(piece.start, piece.end):
                record = self.records[offset]
                self.read[who].append(record)
                assert self.placed.setdefault(offset + piece.shift, record) == record
        self.at[who] = max(self.at[who], to)


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_each_record_that_is_left_is_read_once_and_has_one_position(drawn: random.Random) -> None:
    made = Simulated(drawn)
    for _ in range(40):
        step = drawn.random()
        if step < 0.4:
            made.append()
        elif step < 0.5:
            made.lose(again=step < 0.42)
        else:
            made.go_on(drawn.randint(0, 1), drawn.randint(0, 9))
    for who in (0, 1):
        made.go_on(who, made.given)
        assert len(made.read[who]) == len(set(made.read[who]))
        assert set(made.records) <= set(made.read[who])
        assert made.log.records(made.at[who], made.log.position(len(made.records))) == 0

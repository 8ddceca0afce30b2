"""Places that are shared out: no source keeps another one out."""

from __future__ import annotations

from sluice.stack.shares import Shares


class Places:
    """Takes places, and notes which were ended."""

    def __init__(self, most: int) -> None:
        self.shares, self.ended = Shares(most, own="own"), list[str]()
        self._ends = dict[str, list[object]]()

    def take(self, source: str) -> bool:
        def end() -> None:
            self.ended.append(source)

        self._ends.setdefault(source, []).append(end)
        return self.shares.take(source, end)

    def give_back(self, source: str) -> None:
        self.shares.give_back(source, self._ends[source].pop())  # type: ignore[arg-type]


def test_while_there_is_room_a_source_takes_what_it_needs() -> None:
    places = Places(5)
    assert [places.take("a") for _ in range(6)] == [True] * 5 + [False]
    places.give_back("a")
    places.give_back("a")
    assert (places.take("a"), places.ended) == (True, [])


def test_who_has_less_takes_from_who_has_most_until_both_have_the_same() -> None:
    places = Places(6)
    for _ in range(6):
        places.take("greedy")
    assert [places.take("b") for _ in range(6)] == [True] * 3 + [False] * 3
    assert places.ended == ["greedy"] * 3
    assert places.take("c")
    assert places.take("greedy") is False


def test_many_strangers_do_not_keep_the_platform_out_nor_take_its_places() -> None:
    places = Places(4)
    for number in range(9):
        places.take(f"stranger {number}")
    assert all(places.take("own") for _ in range(4))
    assert places.ended == [f"stranger {number}" for number in range(4)]
    assert places.take("stranger 9") is False
    assert places.take("own") is False


def test_a_place_that_was_taken_away_is_not_given_back_twice() -> None:
    places = Places(2)
    places.take("a")
    places.take("a")
    assert places.take("b")
    places.give_back("a")  # the one that was ended
    assert places.take("c") is False
    places.give_back("a")
    assert places.take("c")

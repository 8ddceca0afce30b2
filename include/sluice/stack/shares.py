"""Shares out a number of places among sources, so that none keeps the others out."""

from __future__ import annotations

from collections.abc import Callable


class Shares:
    """Lets `most` in at a time.

    While there is room, a source may have any number of places. Once there is none, a source with fewer
    places takes one from the source that has the most, and ends what was there last. So one who takes
    everything keeps nobody out, and a proxy, which is one source for many people, is not bounded for nothing.

    own: the source of the platform itself; nobody takes its places, and it takes one from anybody.
    """

    def __init__(self, most: int, own: str = "") -> None:
        self._most, self._own = most, own
        self._taken: dict[str, list[Callable[[], object]]] = {}

    def take(self, source: str, end: Callable[[], object]) -> bool:
        """Whether there is a place. `end` is called if another source is given it later."""
        if sum(map(len, self._taken.values())) >= self._most and not self._make_room(source):
            return False
        self._taken.setdefault(source, []).append(end)
        return True

    def give_back(self, source: str, end: Callable[[], object]) -> None:
        """Free the place that was taken with this `end`, unless another source has got it already."""
        ends = self._taken.get(source, [])
        if end in ends:
            ends.remove(end)
        if not ends:
            self._taken.pop(source, None)

    def _make_room(self, source: str) -> bool:
        """End the newest of the source that has the most, if that leaves it no fewer than the newcomer."""
        others = {each: ends for each, ends in self._taken.items() if each not in (self._own, source)}
        if not others:
            return False
        most = max(others, key=lambda each: len(others[each]))
        if source != self._own and len(others[most]) <= len(self._taken.get(source, ())) + 1:
            return False
        end = others[most].pop()
        if not others[most]:
            del self._taken[most]
        end()
        return True

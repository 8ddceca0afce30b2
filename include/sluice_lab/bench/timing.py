"""Interleaved rounds: contenders take turns, in another order each round."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

Way = Callable[[], object]
Times = Mapping[str, Sequence[float]]


def interleaved(
    ways: Mapping[str, Way], rounds: int, label: str = "", warm: int = 0, rivals: Sequence[str] = ()
) -> dict[str, list[float]]:
    """Wall-clock seconds of each way in each round, after `warm` rounds that are not kept.

    Of the `rivals` only the one that was the fastest in the first round takes part in the others.
    """
    names = list(ways)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm, rounds):
        at = turn % len(names)
        for name in names[at:] + names[:at]:
            gc.collect()
            begin = time.perf_counter()
            ways[name]()
            seconds = time.perf_counter() - begin
            sys.stderr.write(f"  {label} {name}: {seconds:.2f} s{' (warm-up)' if turn < 0 else ''}\n")
            if turn >= 0:
                times[name].append(seconds)
        if turn == 0 and rivals:
            fastest = min(rivals, key=lambda name: times[name][0])
            names = [name for name in names if name == fastest or name not in rivals]
    return times


def better(times: Times, rivals: Sequence[str]) -> str:
    """The fastest of those rivals that took part in all rounds."""
    rounds = max(len(times[name]) for name in rivals)
    return min((name for name in rivals if len(times[name]) == rounds), key=lambda name: median(times, name))


def ratio(times: Times, slower: str, faster: str) -> float:
    """How many times as fast `faster` is: the median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(times[slower], times[faster], strict=True))


def median(times: Times, name: str) -> float:
    return statistics.median(times[name])

"""Which fault happens to which part, in which order, and for how long: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

#: Of three faults one does not wait until the platform has recovered from the one before.
OVERLAPPING = 1 / 3
PAUSE_SECONDS = (0.5, 8.0)
SHORTEST_SECONDS = 1.0
#: How many bytes a power cut takes from the end of a file, if so many were not on the disk.
CUT_BYTES = (4 << 10, 64 << 10)


class FaultKind(StrEnum):
    """What happens to a part."""

    KILL = "kill"  # SIGKILL of its process
    STOP = "stop"  # SIGSTOP of its processes, and SIGCONT after a while
    PARTITION = "partition"  # no packet passes its ports for a while
    POWER_CUT = "power cut"  # SIGKILL, and its files lose what was not on the disk
    FULL_DISK = "full disk"  # its file system has no byte left for a while
    SLOW_NETWORK = "slow network"  # a share of the packets of its ports is lost for a while
    SLOW_DISK = "slow disk"  # its file system takes writes only now and then for a while
    WRONG_CLOCK = "wrong clock"  # it starts again hours ahead or behind, and a while later rightly


#: Kinds that happen to a part's ports, and kinds that happen to its own file system.
OF_NETWORK = frozenset({FaultKind.PARTITION, FaultKind.SLOW_NETWORK})
OF_DISK = frozenset({FaultKind.FULL_DISK, FaultKind.SLOW_DISK})
#: How long a fault of each kind lasts at most, in seconds; one that is not here is over at once.
USUAL: Mapping[FaultKind, float] = {
    FaultKind.STOP: 30.0,
    FaultKind.PARTITION: 30.0,
    FaultKind.FULL_DISK: 30.0,
    FaultKind.SLOW_NETWORK: 30.0,
    FaultKind.SLOW_DISK: 30.0,
    FaultKind.WRONG_CLOCK: 15.0,
}
LONG: Mapping[FaultKind, float] = {
    FaultKind.STOP: 120.0,
    FaultKind.PARTITION: 60.0,
    FaultKind.FULL_DISK: 300.0,
    FaultKind.SLOW_NETWORK: 60.0,
    FaultKind.SLOW_DISK: 120.0,
    FaultKind.WRONG_CLOCK: 120.0,
}


@dataclass(frozen=True)
class DrawnFault:
    """A fault that will happen. seconds: how long it lasts; 0: it is over at once."""

    kind: FaultKind
    part: str
    seconds: float
    pause: float  # before it, in seconds
    overlaps: bool  # whether it waits for no recovery
    chance: int  # the seed of what is drawn while it happens


def draws(
    pairs: Mapping[FaultKind, Sequence[str]],
    number: int,
    seed: int,
    longest: Mapping[FaultKind, float] = USUAL,
) -> list[DrawnFault]:
    """So many faults, evenly over the pairs of a kind and a part.

    pairs: the parts to which each kind can happen. Every pair comes once before one comes again.
    longest: how long a fault of each kind lasts at most (seconds).
    """
    dice = random.Random(seed)  # noqa: S311
    deck = _shuffled([(kind, part) for kind, parts in pairs.items() for part in parts], dice)
    return [_drawn(*next(deck), longest, dice) for _ in range(number)]


def _drawn(kind: FaultKind, part: str, longest: Mapping[FaultKind, float], dice: random.Random) -> DrawnFault:
    most = longest.get(kind, 0.0)
    return DrawnFault(
        kind=kind,
        part=part,
        seconds=round(dice.uniform(min(SHORTEST_SECONDS, most), most), 1),
        pause=round(dice.uniform(*PAUSE_SECONDS), 1),
        overlaps=dice.random() < OVERLAPPING,
        chance=dice.randrange(1 << 32),
    )


def _shuffled(pairs: list[tuple[FaultKind, str]], dice: random.Random) -> Iterator[tuple[FaultKind, str]]:
    while pairs:
        yield from dice.sample(pairs, len(pairs))

"""Which columns of the state are committed: epochs, and the periods that have state.

A batch adds columns to HBase that are named by its number and by the token of its attempt. The commit says
which attempt it was, so its columns are committed by it, however many there are. The runs of commits with one
token are *epochs*; there is a new one only when a writer starts or counts a batch again.

A column is a *base*, with the whole contents of a block, or a *delta*, with what one batch added to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

PeriodKey = tuple[int, int, int]  # task id, version, period start (ms)
#: The token of commits whose columns nobody may read.
NOBODY = ""
#: How the name of a delta ends.
DELTA = b"+"


def column(seq: int, token: str) -> bytes:
    """The column of `state` that the attempt `token` wrote for commit `seq`."""
    return f"s:{seq:020d}.{token}".encode()


def delta_column(seq: int, token: str) -> bytes:
    """The same attempt's column that only adds to the columns before it."""
    return column(seq, token) + DELTA


def column_seq(name: bytes) -> int:
    return int(name[2:22])


def is_delta(name: bytes) -> bool:
    return name.endswith(DELTA)


@dataclass(frozen=True)
class Epochs:
    """The epochs of a topic: the first commit of each in order, and its token."""

    firsts: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()

    @classmethod
    def of(cls, epochs: Iterable[tuple[int, str]]) -> Epochs:
        ordered = sorted(epochs)
        return cls(tuple(first for first, _ in ordered), tuple(token for _, token in ordered))

    def token(self, seq: int) -> str:
        """The token that the columns of commit `seq` have; NOBODY where there is none."""
        at = bisect_right(self.firsts, seq)
        return self.tokens[at - 1] if at else NOBODY

    def then(self, seq: int, token: str) -> Epochs:
        """The epochs after commit `seq`, the newest, was made with this token."""
        if self.tokens and self.tokens[-1] == token:
            return self
        return Epochs((*self.firsts, seq), (*self.tokens, token))


@dataclass(frozen=True)
class StatePeriod:
    """A period of a task version that has state."""

    task_id: int
    version: int
    period_start: int  # ms since the epoch
    layout: int  # how many buckets its blocks are
    since: int  # the commit that it began with: older columns are not its own
    seq: int  # the newest commit that changed it
    bytes: int  # about, of all its blocks

    @property
    def key(self) -> PeriodKey:
        return self.task_id, self.version, self.period_start


@dataclass(frozen=True)
class CommittedColumns:
    """Which columns are committed as of commit `head`."""

    head: int
    epochs: Epochs

    def current(self, cells: Iterable[bytes], since: int) -> list[bytes]:
        """The columns that hold the contents of a row whose period began at `since`, in order.

        They are the newest committed base and the committed deltas after it.
        """
        found = sorted(name for name in cells if self._committed(name, since))
        base = max((column_seq(name) for name in found if not is_delta(name)), default=0)
        return [n for n in found if (column_seq(n) > base if is_delta(n) else column_seq(n) == base)]

    def stale(self, cells: Iterable[bytes], current: Collection[bytes]) -> list[bytes]:
        """The columns that nobody will read from now on: replaced, dropped or never committed.

        A column after the head may belong to a commit that is only just being made.
        """
        return sorted(name for name in cells if name not in current and column_seq(name) <= self.head)

    def _committed(self, name: bytes, since: int) -> bool:
        seq = column_seq(name)
        own = column(seq, self.epochs.token(seq))
        return since <= seq <= self.head and name.removesuffix(DELTA) == own


@dataclass(frozen=True)
class Snapshot:
    """A topic's state as of one commit."""

    readable: CommittedColumns  # it knows the epochs since the first of the periods began
    committed_at: datetime
    periods: Mapping[PeriodKey, StatePeriod]

    @property
    def head(self) -> int:
        return self.readable.head

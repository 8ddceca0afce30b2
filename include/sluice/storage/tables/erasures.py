"""The book of erasures, and what they take from the sums.

A file of the archive is replaced by one in which lines are redacted, and the sums that counted these lines
become less by as many: the lines of event days, what became of them for each task, dead letters, and samples.
Both happen once, whatever dies: what becomes of the sums is *noted* with the new file's claim before the file
gets its name, and the note is *booked* in one transaction with the file's row in the index. Whoever finds a
note looks which file stands.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.tables import alerts, history, schema
from sluice.storage.tables.retention import add_sums
from sluice.storage.tables.tallies import COUNTS, DROPPED

_t, _files = schema.erasures, schema.erased_files
#: The source of the alerts.
ALERTS = "erasure"
UNFINISHED = (
    "is not finished. Until it is, days of the topic are not published and its archive is not compacted: "
    "give the same `sluice erase` command again. One that has redacted no line can be ended with --abandon"
)
SALT_BYTES = 16
#: Rows of samples and dead letters that are looked at or deleted in a statement.
ROWS_A_STATEMENT = 1_000


class ErasureState(StrEnum):
    """How far an erasure is."""

    REDACTING = "redacting"  # files of the archive are rewritten
    REDACTED = "redacted"  # no file of the archive has such a line; what was counted of them is still there
    FINISHED = "finished"
    ABANDONED = "abandoned"  # before it redacted any line


#: Something is left to do for these.
OPEN = (ErasureState.REDACTING, ErasureState.REDACTED)


class NotAbandoned(ValueError):
    """The erasure has redacted lines, or has ended."""

    def __init__(self, erasure: Erasure) -> None:
        said = f"--abandon {erasure.id}: the erasure is {erasure.state} already"
        if erasure.state in OPEN:
            said = (
                f"--abandon {erasure.id}: {erasure.counts.get('lines', 0):,} lines are redacted already, and "
                "come not back. It has to be finished, or sums and results would differ: give the command of "
                f"{erasure.requested_by} of {erasure.requested_at:%Y-%m-%d %H:%M} again, with the same value"
            )
        super().__init__(said)


@dataclass(frozen=True)
class Erasure:
    """A request to erase lines. counts: by part, e.g. {"lines": 3, "counted": 2, "dead": 1}."""

    id: int
    topic: str
    dimension: str
    salt: bytes
    value_hash: bytes
    first_day: date | None
    last_day: date | None
    state: ErasureState
    cut: Mapping[str, int]
    days: tuple[date, ...]
    counts: Mapping[str, int]
    requested_by: str
    requested_at: datetime
    redacted_at: datetime | None
    finished_at: datetime | None

    def is_of(self, value: str) -> bool:
        """Whether it erases the lines of this value."""
        return hmac.compare_digest(_hashed(self.salt, value), self.value_hash)


@dataclass(frozen=True)
class ErasedTally:
    """How many of the erased lines of a day a task version had counted, filtered out and skipped."""

    layer: str
    day: str
    task_id: int
    version: int
    counted: int = 0
    filtered: int = 0
    unmatched: int = 0
    too_long: int = 0


@dataclass(frozen=True)
class FileErasure:
    """What erasing a file's lines takes from the sums.

    lines: that are redacted in it, copies included. counted: of them, those that the speed layer had counted,
    by day of event time. dead: those that were dead letters. days: those of which any lines were redacted.
    """

    lines: int
    counted: Mapping[str, int] = field(default_factory=dict)
    dead: int = 0
    days: tuple[str, ...] = ()
    tallies: tuple[ErasedTally, ...] = ()

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> FileErasure:
        """From what `asdict` makes of it, as JSON keeps it."""
        own = tuple(ErasedTally(**each) for each in said["tallies"])
        return cls(**{**said, "days": tuple(said["days"]), "tallies": own})


@dataclass(frozen=True)
class ErasureNote:
    """A note of a file that is being replaced, and the claim of the new one."""

    erasure_id: int
    topic: str
    topic_id: str
    partition: int
    first: int
    claim: str
    account: FileErasure


class Erasures:
    """The book of all topics."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine

    def begin(
        self,
        topic: str,
        dimension: str,
        value: str,
        days: tuple[date | None, date | None] = (None, None),
        *,
        cut: Mapping[str, int],
        user: str,
    ) -> Erasure:
        """Record the request. The value itself is written nowhere."""
        salt = secrets.token_bytes(SALT_BYTES)
        row = sa.insert(_t).values(
            topic=topic,
            dimension=dimension,
            salt=salt,
            value_hash=_hashed(salt, value),
            first_day=days[0],
            last_day=days[1],
            state=ErasureState.REDACTING,
            cut=dict(cut),
            days=[],
            counts={},
            requested_by=user,
        )
        after = f"lines of one {dimension}; {days[0] or 'first day'} to {days[1] or 'last day'}"
        with self.engine.begin() as connection:
            history.record(connection, who=user, what="topic", name=topic, action="erased", after=after)
            made = _erasure(connection.execute(row.returning(*_t.c)).one())
            _tell(connection, made)
            return made

    def get(self, number: int) -> Erasure:
        """Raises LookupError without one of that number."""
        for found in self._read(_t.c.id == number):
            return found
        raise LookupError(f"there is no erasure {number}: `sluice erase --list` has them")

    def all(self, topic: str = "") -> list[Erasure]:
        """All erasures, the oldest first; with a topic only its own."""
        return self._read(_t.c.topic == topic if topic else sa.true())

    def unfinished(self, topic: str, *states: ErasureState) -> list[Erasure]:
        """Those of the topic that something is left to do for; with `states` only those in one of them."""
        left = states or OPEN
        return self._read((_t.c.topic == topic) & _t.c.state.in_(left))

    def set_state(self, number: int, state: ErasureState) -> None:
        stamp = {ErasureState.REDACTED: "redacted_at", ErasureState.FINISHED: "finished_at"}.get(state)
        values: dict[str, Any] = {"state": state} | ({stamp: sa.func.now()} if stamp else {})
        with self.engine.begin() as connection:
            connection.execute(sa.update(_t).where(_t.c.id == number).values(**values))
            query = sa.select(_t).where(_t.c.id == number)
            _tell(connection, _erasure(connection.execute(query).one()))

    def abandon(self, number: int, user: str) -> None:
        """End an erasure that redacted nothing, while nobody is at it. Raises NotAbandoned, LookupError."""
        own = (_t.c.id == number, _t.c.state.in_(OPEN))
        noted = sa.select(_files.c.first).where(_files.c.erasure_id == number)
        erasure = self.get(number)
        if erasure.counts:
            raise NotAbandoned(erasure)
        values = {"state": ErasureState.ABANDONED, "finished_at": sa.func.now()}
        with self.engine.begin() as connection:
            if not connection.execute(sa.update(_t).where(*own, ~noted.exists()).values(**values)).rowcount:
                raise NotAbandoned(self.get(number))
            after = f"erasure {number} is abandoned: no line is erased"
            history.record(
                connection, who=user, what="topic", name=erasure.topic, action="erased", after=after
            )
            _tell(connection, _erasure(connection.execute(sa.select(_t).where(_t.c.id == number)).one()))

    def note(self, note: ErasureNote) -> None:
        """Note what becomes of the sums once the file with this claim stands."""
        values = {**asdict(note), "account": _json(note.account)}
        keys = [column.name for column in _files.primary_key]
        again = {name: values[name] for name in ("erasure_id", "claim", "account")}
        statement = insert(_files).values(**values)
        with self.engine.begin() as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=again))

    def notes(self, topic: str, topic_id: str, partition: int) -> list[ErasureNote]:
        """The notes of a partition that are not booked."""
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(_files).where(*_at(topic, topic_id, partition))).all()
        return [ErasureNote(**{**row._mapping, "account": FileErasure.of(row.account)}) for row in rows]

    def noted(self, topic: str) -> set[int]:
        """The topic's erasures with notes that are not booked."""
        with self.engine.connect() as connection:
            return set(connection.scalars(sa.select(_files.c.erasure_id).where(_files.c.topic == topic)))

    def forget(self, note: ErasureNote) -> None:
        """Delete a note whose file never got its name."""
        with self.engine.begin() as connection:
            connection.execute(sa.delete(_files).where(*_own(note)))

    def _read(self, condition: sa.ColumnElement[bool]) -> list[Erasure]:
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(_t).where(condition).order_by(_t.c.id)).all()
        return [_erasure(row) for row in rows]


def tell(connection: sa.Connection) -> None:
    """Raise the alerts of all erasures that are not finished."""
    for row in connection.execute(sa.select(_t).where(_t.c.state != ErasureState.FINISHED)).all():
        _tell(connection, _erasure(row))


def _tell(connection: sa.Connection, erasure: Erasure) -> None:
    """Raise the alert of an erasure that something is left to do for, or clear it."""
    name = f"erasure {erasure.id}:"  # no other's name begins so
    says = f"erasure {erasure.id} of topic {erasure.topic}, asked for by {erasure.requested_by}, {UNFINISHED}"
    over = erasure.state not in OPEN
    alerts.sync_within(connection, ALERTS, {} if over else {name: says}, prefix=name)


def redacted_since(connection: sa.Connection, topic: str, days: Mapping[date, datetime]) -> dict[date, int]:
    """Those of these days that had lines that were erased after this time, and by which erasure."""
    query = sa.select(_t.c.id, _t.c.days, _t.c.redacted_at).where(_t.c.topic == topic)
    found: dict[date, int] = {}
    for row in connection.execute(query.where(_t.c.redacted_at >= min(days.values())).order_by(_t.c.id)):
        own = (date.fromisoformat(day) for day in row.days)
        found |= {day: row.id for day in own if day in days and row.redacted_at >= days[day]}
    return found


def hold(connection: sa.Connection) -> None:
    """Let no commit be made beside this transaction, whose first step this is: both change the same sums."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("LOCK TABLE commits IN SHARE MODE"))


def book(connection: sa.Connection, note: ErasureNote, places: Collection[tuple[int, int]]) -> bool:
    """Take what was noted from the sums, once; False if somebody else did. Call `hold` first.

    places: of the lines that the file has redacted now, (offset, line_in_record).
    """
    if not connection.execute(sa.delete(_files).where(*_own(note))).rowcount:
        return False
    account, topic, partition = note.account, note.topic, note.partition
    event = schema.event_days
    for day, lines in account.counted.items():
        own = (event.c.topic == topic, event.c.day == date.fromisoformat(day), event.c.partition == partition)
        connection.execute(sa.update(event).where(*own).values(lines=event.c.lines - lines))
    for each in account.tallies:
        # Of a day that retention dropped, they may be among the sums of all such days.
        any(_taken(connection, topic, each, day) for day in (date.fromisoformat(each.day), DROPPED))
    _delete_at(connection, schema.skipped_lines, note, places)
    letters = _delete_at(connection, schema.dead_letters, note, places)
    counted = sum(account.counted.values())
    gone = counted + account.dead
    # Retention may have deleted a letter's row before, which is in the sums then.
    less = {"records": -gone, "counted": -counted, "dead": -account.dead, "redacted": gone}
    add_sums(connection, topic, {**less, "dead_letters": letters - account.dead})
    _add(connection, note)
    return True


def _taken(connection: sa.Connection, topic: str, tally: ErasedTally, day: date) -> bool:
    """Take the tally from the row of that day; False if there is none."""
    t = schema.tallies
    own = (t.c.topic == topic, t.c.layer == tally.layer, t.c.day == day)
    version = (t.c.task_id == tally.task_id, t.c.version == tally.version)
    less = {name: t.c[name] - getattr(tally, name) for name in COUNTS}
    return bool(connection.execute(sa.update(t).where(*own, *version).values(**less)).rowcount)


def _add(connection: sa.Connection, note: ErasureNote) -> None:
    """Add a file's account to its erasure."""
    own = connection.execute(sa.select(_t.c.counts, _t.c.days).where(_t.c.id == note.erasure_id)).one()
    account = note.account
    new = {"files": 1, "lines": account.lines, "counted": sum(account.counted.values()), "dead": account.dead}
    counts = {name: own.counts.get(name, 0) + number for name, number in new.items()}
    days = sorted({*own.days, *account.days})
    connection.execute(sa.update(_t).where(_t.c.id == note.erasure_id).values(counts=counts, days=days))


def _delete_at(
    connection: sa.Connection, table: sa.Table, note: ErasureNote, places: Collection[tuple[int, int]]
) -> int:
    """Delete the rows of lines at these places of the note's partition; returns how many."""
    if not places:
        return 0
    t = table.c
    first, last = min(places)[0], max(places)[0]
    within = (t.topic == note.topic, t.partition == note.partition, t.offset.between(first, last))
    place = (t.offset, t.line_in_record)
    found = {tuple(row) for row in connection.execute(sa.select(*place).where(*within))} & set(places)
    deleted = 0
    for some in _portions(sorted(found)):
        gone = sa.delete(table).where(*within, sa.tuple_(*place).in_(some))
        deleted += connection.execute(gone).rowcount
    return deleted


def _portions(rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (rows[at : at + ROWS_A_STATEMENT] for at in range(0, len(rows), ROWS_A_STATEMENT))


def _erasure(row: sa.Row[Any]) -> Erasure:
    days = tuple(map(date.fromisoformat, row.days))
    return Erasure(**{**row._mapping, "state": ErasureState(row.state), "days": days})


def _json(account: FileErasure) -> dict[str, Any]:
    said = asdict(account)
    return {**said, "days": list(said["days"]), "tallies": list(said["tallies"])}


def _at(topic: str, topic_id: str, partition: int) -> tuple[sa.ColumnElement[bool], ...]:
    t = _files.c
    return t.topic == topic, t.topic_id == topic_id, t.partition == partition


def _own(note: ErasureNote) -> tuple[sa.ColumnElement[bool], ...]:
    t = _files.c
    return *_at(note.topic, note.topic_id, note.partition), t.first == note.first, t.claim == note.claim


def _hashed(salt: bytes, value: str) -> bytes:
    return hashlib.scrypt(value.encode(), salt=salt, n=1 << 14, r=8, p=1)

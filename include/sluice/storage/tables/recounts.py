"""The periods that are counted again from the archive: the set-aside list.

A period is *set aside* when a block of it is lost or damaged. In one transaction its row of `state_periods`
goes, so nobody reads that state any more, and its row comes here. A batch that was built on the state cannot
be committed (`PeriodsGone`). It is counted again, and the period begins anew with that batch, as after
retention. Readers leave the period out and say so until a rebuild has switched its blocks
(`storage.tables.rebuilds`). The projector leaves it out, too.

A row goes through these steps: no rebuild has it; one has it; its blocks are *switched*, so that readers have
it again; its results are written, and the row is gone. If the period is damaged once more meanwhile, its row
begins again, and no rebuild under way can end it.

If retention deleted lines of a period from the archive (`archive_expiry`), its count would be too small. Its
row stays: it is *expired*, and no rebuild takes it. If a rebuild could not count its version, because a
metric raises for example, its row stays, too: it has *failed*, and only a rebuild that somebody asks for
takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.postgres import patiently
from sluice.storage.tables import alerts, schema
from sluice.storage.tables.backfills import BackfillPointer, next_revision
from sluice.storage.tables.commits import PATIENCE_SECONDS, ROWS_A_STATEMENT, Version
from sluice.storage.tables.epochs import PeriodKey, StatePeriod

_t = schema.recounts
_KEY = sa.tuple_(_t.c.task_id, _t.c.version, _t.c.period_start)
#: The periods that a rebuild takes, in a table of its transaction.
_WANTED = sa.Table(
    "wanted_recounts",
    sa.MetaData(),
    *(sa.Column(column.name, column.type, primary_key=True, autoincrement=False) for column in _KEY.clauses),
    prefixes=["TEMPORARY"],
)
#: What a row has that begins again.
_BEGUN = {"since": sa.func.now(), "rebuild_id": None, "switched": False, "expired": False, "failed": None}
#: Of a row that somebody asked for, once it cannot be counted.
ASKED = "somebody asked to count it again"
#: The source of the alerts: one for each task version with damaged periods.
ALERTS = "state"
COUNTED_AGAIN = "It is being counted again from the archive, and readers are told so until then"
CANNOT_BE_COUNTED = (
    "It cannot be counted again, because retention deleted lines of it from the archive "
    "(retention.archive_days). Readers get only what was published of it"
)
NOT_REBUILT = (
    "It could not be counted again: {why}. Once that is mended, `sluice rebuild {topic} --task {task}` "
    "counts it. Readers get only what was published of it"
)
#: What is said of each period is cut to this many characters.
SAID = 500


@dataclass(frozen=True)
class BlockDamage:
    """A period with a block that cannot be read: a block of `state`, or the one that a pointer names."""

    key: PeriodKey
    why: str
    of: StatePeriod | BackfillPointer


@dataclass(frozen=True)
class Recount:
    """A period of the set-aside list."""

    task_id: int
    version: int
    period_start: int
    why: str | None
    since: datetime
    rebuild_id: int | None
    switched: bool
    expired: bool = False
    failed: str | None = None

    @property
    def key(self) -> PeriodKey:
        return self.task_id, self.version, self.period_start

    @property
    def standing(self) -> str:
        """What becomes of it, in words."""
        if self.expired:
            return "cannot be counted again: retention deleted lines of it from the archive"
        if self.failed:
            return f"could not be counted again: {self.failed}; ask for it once that is mended"
        return "waits for a rebuild" if self.rebuild_id is None else f"rebuild {self.rebuild_id}"


class Recounts:
    """The set-aside list of one topic.

    Reads and writes wait `patience` seconds for a PostgreSQL that is away.
    """

    def __init__(self, engine: sa.Engine, topic: str, patience: float = PATIENCE_SECONDS) -> None:
        self.engine = engine
        self.topic = topic
        self.patience = patience

    def set_aside(self, damages: Iterable[BlockDamage]) -> set[PeriodKey]:
        """Set these periods aside, unless they changed since they were read; returns those set aside."""
        found = sorted(damages, key=lambda each: each.key)

        def write() -> set[PeriodKey]:
            with self.engine.begin() as connection:
                damaged = [each for each in found if _still(connection, self.topic, each)]
                if not damaged:
                    return set()
                keys = {each.key: each.why[:SAID] for each in damaged}
                drop_state(connection, self.topic, sorted(keys))
                rows = [{**row_of(self.topic, key), "why": why} for key, why in sorted(keys.items())]
                put(connection, rows, {"why": insert(_t).excluded.why, **_BEGUN})
                next_revision(connection, self.topic)  # readers of pointers look again
                tell(connection, self.topic)
                return set(keys)

        return patiently(write, self.patience)

    def of(self, keys: Collection[PeriodKey]) -> set[PeriodKey]:
        """Those of these periods that nobody may read now."""
        if not keys:
            return set()
        # A rebuild of a year of minutes has half a million rows here: only their stretch of time is read.
        tasks, versions, starts = map(set, zip(*keys, strict=True))
        near = (_t.c.period_start >= min(starts), _t.c.period_start <= max(starts))
        own = (_t.c.task_id.in_(tasks), _t.c.version.in_(versions), *near)
        return {each.key for each in self._read(sa.and_(~_t.c.switched, *own))} & set(keys)

    def all(self) -> list[Recount]:
        """The whole list, in order of versions and time."""
        return self._read(sa.true())

    def damaged(self, most: int, task_id: int | None = None) -> list[Recount]:
        """The first periods of the list with a reason: a damaged block, or lines that retention deleted.

        task_id: only those of this task.
        """
        own = sa.true() if task_id is None else _t.c.task_id == task_id
        return self._read(sa.and_(_t.c.why.is_not(None), own), most)

    def waiting(self) -> set[PeriodKey]:
        """The periods that a rebuild may take, and none has yet."""
        return {each.key for each in self._read(free())}

    def failed(self) -> set[PeriodKey]:
        """The periods of versions that a rebuild could not count."""
        return {each.key for each in self._read(_t.c.failed.is_not(None))}

    def expired(self) -> set[PeriodKey]:
        """The periods that cannot be counted again."""
        return {each.key for each in self._read(_t.c.expired)}

    def expire(self, keys: Collection[PeriodKey]) -> None:
        """Let no rebuild take these periods, if they are on the list."""
        with self.engine.begin() as connection:
            expire(connection, self.topic, keys, None)

    def touch(self, begin: int, end: int, longest: int) -> bool:
        """Whether the comparison of a day, [begin, end) in ms, waits for a period of the list.

        longest: no period is longer, ms. A period that is never counted again holds up only the day in which
        it begins: of the other days' comparisons it is left out. A version that failed holds up none.
        """
        since = sa.case((_t.c.expired, begin), else_=begin - longest)
        inside = sa.and_(_t.c.period_start >= since, _t.c.period_start < end, _t.c.failed.is_(None))
        return bool(self._read(inside))

    def unsettled(self) -> set[Version]:
        """The versions whose results a rebuild may be writing."""
        return {each.key[:2] for each in self._read(_t.c.switched)}

    def forget(self, keys: Iterable[PeriodKey]) -> None:
        """Take periods off the list that retention dropped."""
        with self.engine.begin() as connection:
            for some in parts(sorted(keys)):
                connection.execute(sa.delete(_t).where(_t.c.topic == self.topic, _KEY.in_(some)))
            tell(connection, self.topic)

    def _read(self, condition: sa.ColumnElement[bool], most: int | None = None) -> list[Recount]:
        names = [_t.c[name] for name in Recount.__dataclass_fields__]
        query = sa.select(*names).where(_t.c.topic == self.topic, condition).order_by(*names[:3]).limit(most)

        def read() -> list[Recount]:
            with self.engine.connect() as connection:
                return [Recount(*row) for row in connection.execute(query)]

        return patiently(read, self.patience)


def starts(
    connection: sa.Connection, topic: str, version: Version, gaps: Sequence[tuple[int, int]]
) -> set[int]:
    """The starts (ms) of the version's periods in these gaps of time that nobody may read now."""
    if not gaps:
        return set()
    query = sa.select(_t.c.period_start).where(
        *(_t.c.topic == topic, _t.c.task_id == version[0], _t.c.version == version[1], ~_t.c.switched),
        *(_t.c.period_start >= gaps[0][0], _t.c.period_start < gaps[-1][1]),
    )
    found = connection.scalars(query).all()
    return {each for each in found if any(begin <= each < end for begin, end in gaps)}


def gather(connection: sa.Connection, keys: Iterable[PeriodKey]) -> None:
    """Note the periods that the transaction is to `take`. It holds nobody up."""
    _WANTED.create(connection)
    names = [column.name for column in _WANTED.c]
    for some in parts(sorted(keys)):
        connection.execute(sa.insert(_WANTED), [dict(zip(names, key, strict=True)) for key in some])
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("ANALYZE wanted_recounts"))  # nobody else does it for such a table


def take(connection: sa.Connection, topic: str, number: int) -> None:
    """Drop the state of what was gathered, and put it on the list as the rebuild's.

    It is a statement for each, however many periods they are: the caller keeps commits waiting meanwhile.
    """
    t, own = schema.state_periods, sa.select(_WANTED)
    of_topic = (t.c.topic == topic, sa.tuple_(t.c.task_id, t.c.version, t.c.period_start).in_(own))
    connection.execute(sa.delete(t).where(*of_topic))
    values = (sa.literal(topic), *_WANTED.c, sa.literal(number), sa.false(), sa.false())
    # SQLite takes an upsert from a query only with a condition.
    rows = sa.select(*values).where(_WANTED.c.task_id.is_not(None))
    names = ("topic", *(column.name for column in _WANTED.c), "rebuild_id", "switched", "expired")
    put_all = insert(_t).from_select(names, rows)
    again = {"rebuild_id": number, "switched": False}
    connection.execute(put_all.on_conflict_do_update(index_elements=list(_t.primary_key), set_=again))
    _WANTED.drop(connection)


def put(connection: sa.Connection, rows: Sequence[dict[str, Any]], again: dict[str, Any]) -> None:
    """Write rows of the list; of a period that is on it already, set `again`."""
    statement = insert(_t).on_conflict_do_update(index_elements=list(_t.primary_key), set_=again)
    for some in parts(rows):
        connection.execute(statement, some)


def expire(connection: sa.Connection, topic: str, keys: Collection[PeriodKey], number: int | None) -> None:
    """Let no rebuild take these periods of a rebuild (None: of none) any more, and say so in the alert."""
    gone = sa.update(_t).where(_t.c.topic == topic, _t.c.rebuild_id.is_not_distinct_from(number))
    values = {"expired": True, "rebuild_id": None, "why": sa.func.coalesce(_t.c.why, ASKED)}
    for some in parts(sorted(keys)):
        connection.execute(gone.where(_KEY.in_(some)).values(**values))
    tell(connection, topic)


def fail(connection: sa.Connection, topic: str, failures: Mapping[Version, str], number: int) -> None:
    """Let this rebuild not go on with these versions, and no other one take them by itself."""
    for (task_id, version), why in failures.items():
        own = sa.and_(_t.c.topic == topic, _t.c.task_id == task_id, _t.c.version == version)
        values = {"failed": why[:SAID], "rebuild_id": None, "why": sa.func.coalesce(_t.c.why, ASKED)}
        connection.execute(sa.update(_t).where(own, _t.c.rebuild_id == number).values(**values))
    tell(connection, topic)


def free() -> sa.ColumnElement[bool]:
    """Which periods a rebuild takes by itself."""
    return sa.and_(~_t.c.switched, _t.c.rebuild_id.is_(None), ~_t.c.expired, _t.c.failed.is_(None))


def drop_state(connection: sa.Connection, topic: str, keys: Sequence[PeriodKey]) -> None:
    """Make the state of these periods unreadable: columns of commits up to now are of no use any more."""
    t = schema.state_periods.c
    for some in parts(keys):
        named = sa.tuple_(t.task_id, t.version, t.period_start).in_(some)
        connection.execute(sa.delete(schema.state_periods).where(t.topic == topic, named))


def tell(connection: sa.Connection, topic: str) -> None:
    """Bring the topic's alerts in line with its list; a period that somebody asked for raises none."""
    n = schema.tasks.c.name
    query = (
        sa.select(
            *(_t.c.task_id, _t.c.version, n, _t.c.expired, _t.c.failed, sa.func.count().label("periods")),
            *(sa.func.min(_t.c.period_start).label("first"), sa.func.max(_t.c.period_start).label("last")),
            sa.func.min(_t.c.why).label("why"),
        )
        .select_from(_t.outerjoin(schema.tasks, schema.tasks.c.id == _t.c.task_id))
        .where(_t.c.topic == topic, _t.c.why.is_not(None), ~_t.c.switched)
        .group_by(_t.c.task_id, _t.c.version, n, _t.c.expired, _t.c.failed)
    )
    told = {}
    for row in connection.execute(query):
        label = f"{row.task_id}v{row.version}"
        when = f"the period from {_at(row.first)}"
        if row.periods > 1:
            when = f"{row.periods} periods from {_at(row.first)} to {_at(row.last)}"
        said, name = COUNTED_AGAIN, f"{topic}: task {label}"
        if row.expired:
            said, name = CANNOT_BE_COUNTED, f"{name}, expired"
        elif row.failed:
            task = row.name or label
            said, name = NOT_REBUILT.format(why=row.failed, topic=topic, task=task), f"{name}, failed"
        told[name] = (
            f"task {row.name or label} ({label}), {when}: {row.why}. Its other periods and all other tasks "
            f"go on. {said}"
        )
    alerts.sync_within(connection, ALERTS, told, prefix=f"{topic}: ")


def row_of(topic: str, key: PeriodKey) -> dict[str, Any]:
    """A new row of the list."""
    names = ("topic", "task_id", "version", "period_start")
    return {
        **dict(zip(names, (topic, *key), strict=True)),
        "switched": False,
        "expired": False,
        "failed": None,
    }


def parts(values: Sequence[Any]) -> Iterator[list[Any]]:
    """The values, as many at a time as a statement has."""
    for begin in range(0, len(values), ROWS_A_STATEMENT):
        yield list(values[begin : begin + ROWS_A_STATEMENT])


def _still(connection: sa.Connection, topic: str, damage: BlockDamage) -> bool:
    """Whether what was read is still what readers would read; keeps it so until the transaction ends."""
    if isinstance(damage.of, BackfillPointer):
        b = schema.backfill_blocks.c
        same = [b.row == damage.of.row, b.column == damage.of.column]
    else:
        t, own = schema.state_periods.c, damage.of
        same = [t.topic == topic, t.task_id == own.task_id, t.version == own.version]
        same += [t.period_start == own.period_start, t.since == own.since, t.seq == own.seq]
    return connection.scalar(sa.select(sa.literal(1)).where(*same).with_for_update()) is not None


def _at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

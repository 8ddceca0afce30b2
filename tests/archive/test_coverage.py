"""A day's coverage is what all files of the topic say, and is answered from few of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.archive import index, indexing
from sluice.archive.coverage import Coverage, coverage
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import Footer
from sluice.runtime.positions import era_of, position_at
from sluice.storage.postgres import engine
from sluice.storage.tables import archive_chains, schema
from sluice_lab.bench.database import server
from sluice_lab.bench.databases import database
from tests.examples import examples
from tests.storage.plans import rows_read

pytestmark = pytest.mark.slow

FILES, CHAINS = schema.archive_files, schema.archive_chains
SUMS = ("files", "records", "lines", "bytes", "offsets")
DAYS = [date(2024, 5, 1) + timedelta(days=n) for n in range(4)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[sa.Engine]:
    with server("coverage") as own, database(own, "bench_coverage") as made:
        yield engine(made)


def full_reading(database: sa.Engine, topic: str, day: date, cut: dict[str, int]) -> Coverage:
    """The same answer from every file that the topic ever had."""
    chains: dict[str, dict[str, tuple[int, int]]] = {}
    covered = lines = 0
    with database.connect() as connection:
        for row in connection.execute(sa.select(FILES).where(FILES.c.topic == topic)):
            if row.first >= cut.get(str(row.partition), 0):
                continue
            own = chains.setdefault(str(row.partition), {})
            first, following = own.get(row.topic_id, (row.first, row.next))
            own[row.topic_id] = min(first, row.first), max(following, row.next)
            covered += row.next - row.first
            said = row.days.get(day.isoformat(), 0)
            lines += said[0] if isinstance(said, list) else said
    expected = 0
    for partition, found in chains.items():
        *older, newest = sorted(found.values())
        expected += sum(following - first for first, following in older) + cut[partition] - newest[0]
    return Coverage(expected, covered, lines)


def added_up(connection: sa.Connection) -> list[tuple[Any, ...]]:
    """The sums of all rows by chain."""
    c, of = FILES.c, (FILES.c.topic, FILES.c.topic_id, FILES.c.partition)
    sums = (c.records, c.lines, c.bytes, c.next - c.first)
    query = sa.select(*of, sa.func.count(), *map(sa.func.sum, sums)).group_by(*of).order_by(*of)
    return [tuple(row) for row in connection.execute(query)]


def kept(connection: sa.Connection) -> list[tuple[Any, ...]]:
    """The same sums as the triggers keep them."""
    names = ("topic", "topic_id", "partition", *SUMS)
    query = sa.select(*(CHAINS.c[name] for name in names)).where(CHAINS.c.files > 0)
    return [tuple(row) for row in connection.execute(query.order_by(*(CHAINS.c[n] for n in names[:3])))]


@dataclass
class Histories:
    """What happens to the index of two topics of two partitions, by chance."""

    database: sa.Engine
    chance: Random
    #: The topic's id and where its chain goes on, by topic and partition.
    chains: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    cuts: set[int] = field(default_factory=lambda: {0, 7})

    def step(self) -> None:
        place = self.chance.choice(["logs", "others"]), self.chance.randrange(2)
        self.chains.setdefault(place, (f"id{self.chance.randrange(9)}", self.chance.randrange(50)))
        happens = self.chance.choices(
            [self.add, self.merge, self.vanish, self.expire, self.begin_era, self.make_again, self.again],
            [12, 4, 1, 1, 1, 1, 1],
        )[0]
        happens(*place)

    def add(self, topic: str, partition: int) -> None:
        topic_id, first = self.chains[topic, partition]
        made = self.footer((topic, topic_id, partition), first, first + self.chance.randrange(1, 30))
        indexing.add(self.database, [(made, made.lines * 9, f"{first}.parquet")])
        self.chains[topic, partition] = topic_id, made.next
        self.cuts |= {made.first + 1, made.next}

    def merge(self, topic: str, partition: int) -> None:
        """Some neighbours become one; what was missing between them comes back."""
        if len(rows := self.rows(topic, partition)) > 1:
            begin = self.chance.randrange(len(rows) - 1)
            parts = rows[begin : begin + self.chance.randrange(2, 5)]
            place = topic, self.chains[topic, partition][0], partition
            made = self.footer(place, parts[0].first, parts[-1].next)
            with self.database.begin() as connection:
                indexing.put_instead(connection, made, 9, "merged.parquet")

    def vanish(self, topic: str, partition: int) -> None:
        """A file is gone: damage, which leaves a gap."""
        if rows := self.rows(topic, partition):
            gone = self.chance.choice(rows).first
            self.delete(topic, partition, FILES.c.first == gone)

    def expire(self, topic: str, partition: int) -> None:
        """Retention takes the oldest files; the newest stays."""
        if rows := self.rows(topic, partition):
            self.delete(topic, partition, FILES.c.first < self.chance.choice(rows).first)

    def begin_era(self, topic: str, partition: int) -> None:
        """Kafka lost records; a file without lines lies between the eras."""
        topic_id, first = self.chains[topic, partition]
        until = position_at(era_of(first) + 1, self.chance.randrange(20))
        made = self.footer((topic, topic_id, partition), first, until, records=0)
        indexing.add(self.database, [(made, 1, f"{first}.parquet")])
        self.chains[topic, partition] = topic_id, until

    def make_again(self, topic: str, partition: int) -> None:
        """The topic was deleted and made again: another era, and a chain of its own."""
        _, first = self.chains[topic, partition]
        begin = position_at(era_of(first) + 1, self.chance.randrange(20))
        self.chains[topic, partition] = f"id{self.chance.randrange(10**6)}", begin

    def again(self, topic: str, partition: int) -> None:
        """A file is indexed once more, with other numbers."""
        if rows := self.rows(topic, partition):
            row = self.chance.choice(rows)
            made = self.footer((topic, row.topic_id, partition), row.first, row.next)
            indexing.add(self.database, [(made, 77, row.path)])

    def rows(self, topic: str, partition: int) -> list[Any]:
        place = ArchivedPartition(topic, self.chains[topic, partition][0], partition)
        with self.database.connect() as connection:
            query = sa.select(FILES).where(*index.at(place)).order_by(FILES.c.first)
            return list(connection.execute(query))

    def delete(self, topic: str, partition: int, which: sa.ColumnElement[bool]) -> None:
        place = ArchivedPartition(topic, self.chains[topic, partition][0], partition)
        with self.database.begin() as connection:
            connection.execute(sa.delete(FILES).where(*index.at(place), which))

    def footer(
        self, place: tuple[str, str, int], first: int, until: int, records: int | None = None
    ) -> Footer:
        days = {str(day): self.chance.randrange(1, 99) for day in self.chance.sample(DAYS, 2)}
        days = {} if records == 0 else days
        times = dict.fromkeys(days, (5, 6)) if self.chance.random() < 0.5 else {}
        records = until - first if records is None else records
        named = dict(zip(("topic", "topic_id", "partition"), place, strict=True))
        counts = {"records": records, "lines": sum(days.values()), "skipped": until - first - records}
        when = {"arrival_min": 1, "arrival_max": 2, "event_min": 1, "event_max": 2, "written_at": 1}
        rest: dict[str, Any] = {"days": days, "unparsed": 0, "generation": 1, "claim": "c", "times": times}
        return Footer(**named, first=first, next=until, **counts, **when, **rest)  # type: ignore[arg-type]


@given(st.randoms(use_true_random=False))
@settings(examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_says_what_all_files_say_whatever_happened_to_them(postgres: sa.Engine, chance: Random) -> None:
    with postgres.begin() as connection:
        connection.execute(sa.delete(FILES))
    history = Histories(postgres, chance)
    for _ in range(chance.randrange(1, 40)):
        history.step()
    with postgres.connect() as connection:
        assert kept(connection) == added_up(connection)
        for topic in ("logs", "others"):
            last = sa.select(FILES.c.partition, sa.func.max(FILES.c.next)).where(FILES.c.topic == topic)
            ends = {row[0]: row[1] for row in connection.execute(last.group_by(FILES.c.partition))}
            assert archive_chains.ends(archive_chains.sums(connection, topic)) == ends
    ends = [end for _, end in history.chains.values()]
    for _ in range(8):
        cut = {str(n): chance.choice([*ends, *history.cuts]) for n in range(chance.randrange(3))}
        for topic in ("logs", "others"):
            day = chance.choice(DAYS)
            found = coverage(postgres, topic, day, cut)
            assert found == full_reading(postgres, topic, day, cut), (topic, day, cut)


def test_it_reads_the_files_of_the_day_and_the_ends_of_chains(postgres: sa.Engine) -> None:
    """400 days of a file an hour in two partitions; other topics have files of the day, too."""
    filled = """
    INSERT INTO archive_files (topic, topic_id, partition, first, next, records, lines, bytes, arrival_min,
        arrival_max, days, unparsed, generation, path)
    SELECT 'old', 'id', p, n * 50, n * 50 + 50, 50, 9, 9, 0, 0,
        jsonb_build_object(cast(date '2024-05-01' - 400 + n / 24 AS text), 9), 0, 1, 'path' || n
    FROM generate_series(0, 400 * 24 - 1) n, generate_series(0, 1) p
    """
    with postgres.begin() as connection:
        connection.execute(sa.delete(FILES))
        connection.execute(sa.delete(CHAINS))
        connection.execute(sa.text(filled))
    with postgres.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("VACUUM ANALYZE"))
    end, day = 400 * 24 * 50, date(2024, 4, 20)
    read = rows_read(postgres, lambda: coverage(postgres, "old", day, {"0": end, "1": end - 70}))
    assert coverage(postgres, "old", day, {"0": end, "1": end}).lines == 2 * 24 * 9
    assert read <= 2 * 24 + 10

"""From results to their lines on the running stack: published, superseded and open, archived and not."""

from __future__ import annotations

import csv
import io
import os
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from sluice.archive.compaction import compact
from sluice.archive.layout import partition_directory
from sluice.archive.verification import places
from sluice.lines.answer import LinePosition, LinesAnswer, find
from sluice.lines.basis import ResultsDropped
from sluice.lines.query import LinesQuery, shown
from sluice.quality.reconcile import reconcile
from sluice.results.layers import StoredLayers
from sluice.results.query import Query, Where
from sluice.results.reader import read
from sluice.runtime.positions import UNREAD
from sluice.runtime.settings import Settings
from sluice.speed.source import TopicRange
from sluice.storage.hdfs import HdfsStore
from sluice.storage.tables import schema
from sluice.storage.tables.retention import RetentionBook
from sluice.tasks.spec import TaskSpec
from sluice.transmission.mac import identity_key
from sluice.transmission.topics import Topics
from sluice_lab.bench.databases import drop
from sluice_lab.bench.headers import to_headers
from tests.airflow_home import prepare
from tests.archive.aged import age
from tests.batch.backfill.test_backfill import Layers
from tests.loops import run
from tests.speed.speed_driver import _own_database

pytestmark = pytest.mark.stack

DAY, NEXT = date(2015, 5, 17), date(2015, 5, 18)
PARTITIONS, STRETCH = 2, 8_192
RESULTS_CHECKED = 80
STATUS = {"name": "status", "extract": {"delimiter": " ", "index": 8}}
PATH = {"name": "path", "extract": {"delimiter": " ", "index": 6}}
SIZE = {"delimiter": " ", "index": 9}
NOT_304 = {"mode": "black", "values": ["304"]}


class File:
    """A front-end's log: its lines, and where each begins."""

    def __init__(self, host: str) -> None:
        self.host, self.name = host, f"{host}.log"
        self.lines: list[bytes] = []
        self.begins = [0]

    def write(self, lines: Sequence[bytes]) -> range:
        first = len(self.lines)
        for line in lines:
            self.lines.append(line)
            self.begins.append(self.begins[-1] + len(line) + 1)
        return range(first, len(self.lines))


class Behind(Layers):
    """Two layers over a real Kafka topic: what is sent is archived and counted when the test says so."""

    def __init__(self, settings: Settings, topic: str, spark: SparkSession) -> None:
        super().__init__(settings, topic, spark)
        with Topics(settings) as topics:
            self.topic_id = topics.create(topic, partitions=PARTITIONS).id
        self.producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap, acks="all")
        self.dice = random.Random(3)  # noqa: S311 - not a secret
        self.files = [File("web1"), File("web2")]
        self.key = identity_key(settings)

    def spec(self, name: str, period: str, metrics: Sequence[str], **more: Any) -> TaskSpec:
        given = {"topic": self.topic, "name": f"{self.topic}_{name}", "period": period, "metrics": metrics}
        return TaskSpec.model_validate({**given, **more})

    def log_lines(self, count: int, day: date) -> list[bytes]:
        """Lines of some minutes of a day; a few are long, dead, or without a measure."""
        dice, made = self.dice, []
        for _ in range(count):
            at = datetime(day.year, day.month, day.day, dice.randrange(24), dice.randrange(4), tzinfo=UTC)
            stamp = (at + timedelta(seconds=dice.randrange(60))).strftime("%d/%b/%Y:%H:%M:%S +0000")
            path = f"/p_{dice.randrange(6)}" + "x" * dice.choice((0,) * 30 + (300, 1_200))
            status, size = (
                dice.choice(("200", "200", "304", "404", "500")),
                dice.choice(("-", "0", "17", "512")),
            )
            stamp = stamp if dice.random() < 0.98 else "no time"
            made.append(
                f'10.0.0.{dice.randrange(9)} - - [{stamp}] "GET {path} HTTP/1.1" {status} {size}'.encode()
            )
        return made

    def send(self, file: File, numbers: range) -> None:
        """Send lines of a file in blocks, each stretch to its partition."""
        at = numbers.start
        while at < numbers.stop:
            stretch = file.begins[at] // STRETCH
            most = min(numbers.stop, at + self.dice.randint(1, 12))
            end = next((n for n in range(at + 1, most) if file.begins[n] // STRETCH != stretch), most)
            body = b"\n".join(file.lines[at:end])
            headers = to_headers(file.host, file.name, file.begins[at], body, self.key)
            self.producer.send(self.topic, body, headers=headers, partition=stretch % PARTITIONS)
            at = end

    def sent(self, count: int, *days: date) -> None:
        """Send new lines, then some stretches again in other blocks, and records that prove nothing."""
        for file in self.files:
            self.send(file, file.write([line for day in days for line in self.log_lines(count, day)]))
        for file in self.files:
            for _ in range(3):
                first = self.dice.randrange(len(file.lines))
                self.send(file, range(first, min(len(file.lines), first + 40)))
        alone = self.log_lines(3, days[0])
        for line in alone:
            self.producer.send(self.topic, line, partition=0)
            forged = to_headers("web1", "web1.log", 0, line, b"another key")
            self.producer.send(self.topic, line, headers=forged, partition=1)
        self.producer.flush()

    def take(self, *, archived: Sequence[int] = range(PARTITIONS)) -> None:
        """Count what came, after the archiver has archived these partitions up to its end."""
        with Topics(self.settings) as topics:
            ends = {str(p): topics.bounds(self.topic, p)[1] for p in range(PARTITIONS)}
        for partition in archived:
            start = {str(partition): self._archived[partition]}
            own = self._from_kafka(start, {str(partition): ends[str(partition)]})
            self.archive(own, partition)
        new = self._from_kafka(self.counted, ends)
        self.next.update({int(p): end for p, end in ends.items()})
        self.count(new)

    def _from_kafka(self, start: dict[str, int], end: dict[str, int]) -> pa.RecordBatch:
        logs = dict.fromkeys(range(PARTITIONS), UNREAD)
        parts = TopicRange.of(self.settings, self.topic, start, end, logs).parts(1)
        return pa.concat_batches([batch for part in parts for batch in part])

    def publish(self, day: date = DAY) -> None:
        self.nightly(day)
        computed = self.days.get(day)
        assert computed is not None
        reconcile(self.settings, self.topic, day, computed.cut)

    def versions(self) -> list[tuple[str, int]]:
        """Every task and version of the topic."""
        return [
            (task.name, number)
            for task in self.tasks.list(self.topic)
            for number in range(1, task.version + 1)
        ]

    def find(self, query: LinesQuery, **more: Any) -> LinesAnswer:
        return find(self.settings, query, **more)


@pytest.fixture(scope="module")
def behind(stack: Settings, spark: SparkSession) -> Iterator[Behind]:
    """A published day with doubles, a changed task and a filled one."""
    topic = f"behind_{secrets.token_hex(4)}"
    made = Behind(_own_database(stack, topic), topic, spark)  # or the instance would count the topic, too
    made.apply(*specs(made))
    made.sent(150, DAY)
    made.take()
    made.sent(100, DAY, NEXT)
    made.take()
    changed = made.spec("minutes", "1m", ["count", "missing", "sum"], dimensions=[STATUS, PATH], measure=SIZE)
    made.apply(changed, made.spec("new", "1h", ["count"], dimensions=[STATUS]))
    made.sent(100, DAY)
    made.take()
    made.fill("new")
    made.publish()
    yield made
    made.producer.close()
    made.hbase.close()
    made.forget()
    made.database.dispose()
    drop(stack, topic)


def specs(behind: Behind) -> list[TaskSpec]:
    where = [{"extract": STATUS["extract"], "filter": NOT_304}]
    measured = {"measure": SIZE}
    return [
        behind.spec("minutes", "1m", ["count", "missing", "sum"], dimensions=[STATUS], **measured),
        behind.spec(
            "hours",
            "1h",
            ["count", "unique"],
            dimensions=[PATH],
            where=where,
            measure=PATH["extract"] | {"type": "text"},
        ),
        behind.spec("days", "1d", ["count"], dimensions=[STATUS], timezone="Europe/Berlin"),
        behind.spec("weeks", "7d", ["count"]),
    ]


def check(behind: Behind, wanted: set[str]) -> None:
    """Random results of all tasks and versions have as many lines as they count."""
    dice, versions = random.Random(7), behind.versions()  # noqa: S311 - not a secret
    chosen: list[tuple[str, int, list[str], dict[str, Any]]] = []
    for name, version in versions:
        (answer,) = read(StoredLayers(behind.settings), Query(tasks=(name,), version=version))
        rows = answer.table().to_pylist()
        some = dice.sample(rows, min(-(-RESULTS_CHECKED // len(versions)), len(rows)))
        chosen += [(name, version, answer.dimensions, row) for row in some]
    assert len(chosen) > RESULTS_CHECKED // 2
    assert {row["state"] for *_, row in chosen} == wanted
    for name, version, dimensions, row in chosen:
        query = LinesQuery(
            task=name,
            version=version,
            period=round(row["period"].timestamp() * 1000),
            where=tuple(Where(dimension=each, values=(row[each],)) for each in dimensions),
        )
        rows = [line for batch in behind.find(query).batches() for line in batch.to_pylist()]
        assert len(rows) == row["count"], (name, version, row)
        assert len({(line["host"], line["src_file"], line["src_offset"]) for line in rows}) == len(rows)
        for metric in {"missing", "sum", "unique"} & set(row):
            lines = behind.find(query.model_copy(update={"metric": metric})).count()
            if "missing" in row:
                assert lines == (row["missing"] if metric == "missing" else row["count"] - row["missing"])


def test_published_results_have_their_lines(behind: Behind) -> None:
    check(behind, {"final", "open"})


def test_open_and_superseded_results_have_theirs_in_the_archive_and_in_kafka(behind: Behind) -> None:
    behind.sent(60, DAY, NEXT)  # late lines, and some that are archived in one partition only
    behind.take(archived=[0])
    behind.sent(40, NEXT)  # only in Kafka
    behind.take(archived=[])
    check(behind, {"superseded", "open"})
    name = f"{behind.topic}_minutes"
    (answer,) = read(StoredLayers(behind.settings), Query(tasks=(name,)))
    row = next(
        row for row in answer.table().to_pylist() if row["period"].date() == NEXT and row["state"] == "open"
    )
    query = LinesQuery(task=name, period=round(row["period"].timestamp() * 1000))
    whole = [line for batch in behind.find(query).batches() for line in batch.to_pylist()]

    shown_lines: list[dict[str, Any]] = []
    after: LinePosition | None = None
    commit = behind.find(query).basis.result.commit
    while True:  # commits that come meanwhile change no page
        page = [*behind.find(query, commit=commit).pages(7, after)]
        if not page:
            break
        shown_lines += [line for batch, _ in page for line in batch.to_pylist()]
        after = page[-1][1][-1]
        if len(shown_lines) == 7:
            behind.sent(10, NEXT)
            behind.take(archived=[])
    assert shown_lines == whole


def test_the_command_prints_as_many_lines_as_the_results_say(behind: Behind) -> None:
    name = f"{behind.topic}_minutes"
    results = sluice(behind, "results", name, "--version", "1", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(results.stdout)))
    row = max(rows, key=lambda row: int(row["count"]))
    found = sluice(
        behind,
        "lines",
        name,
        "--version",
        "1",
        "--period",
        row["period"],
        "--where",
        f"status={row['status']}",
    )
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == int(row["count"])
    nothing = sluice(behind, "lines", name, "--period", row["period"].replace(":00Z", ":07Z"))
    assert (nothing.returncode, f"nearest is {row['period']}" in nothing.stderr) == (2, True)
    unknown = sluice(behind, "lines", name, "--period", row["period"], "--where", "colour=red")
    assert (unknown.returncode, "choose of status, path" in unknown.stderr) == (2, True)


def test_the_api_sends_as_many_lines_as_the_results_say(behind: Behind) -> None:
    prepare()
    from sluice_airflow.api.lines import LinesWanted, Searches, read_token

    name = f"{behind.topic}_hours"
    (answer,) = read(StoredLayers(behind.settings), Query(tasks=(name,)))
    row = max(answer.table().to_pylist(), key=lambda row: row["count"])
    where = (Where(dimension="path", values=(row["path"],)),)
    query = LinesQuery(task=name, period=round(row["period"].timestamp() * 1000), where=where)
    lines, wanted, searches = 0, LinesWanted(query, 2, False, None, None), Searches()
    while True:
        page = run(searches.page(behind.settings, wanted))
        assert (page.counted, page.doubts) == (row["count"], [])
        lines += len(page.lines)
        if page.next is None:
            break
        wanted = LinesWanted(query, 2, False, *read_token(page.next))
    assert lines == page.found == row["count"] > 2


def test_files_without_lines_of_the_period_are_not_read(behind: Behind) -> None:
    behind.sent(30, date(2015, 6, 1))
    behind.take()
    name = f"{behind.topic}_minutes"
    start = datetime(2015, 6, 1, tzinfo=UTC)
    for minute in range(24 * 60):
        query = LinesQuery(task=name, period=round((start + timedelta(minutes=minute)).timestamp() * 1000))
        found = behind.find(query)
        if found.basis.result.counted:
            break
    assert 0 < found.files <= PARTITIONS
    assert found.count() == found.basis.result.counted

    # The rows of files of older archivers say no times: they are read, and the answer is the same.
    t = schema.archive_files
    with behind.database.begin() as connection:
        for row in connection.execute(sa.select(t).where(t.c.topic == behind.topic)).all():
            days = {day: said[0] for day, said in row.days.items()}
            same = (t.c.topic == row.topic, t.c.partition == row.partition, t.c.first == row.first)
            connection.execute(sa.update(t).where(*same).values(days=days))
    again = behind.find(query)
    assert again.count() == found.basis.result.counted


def test_merged_files_have_the_same_lines_and_make_the_same_day(behind: Behind) -> None:
    query = LinesQuery(
        task=f"{behind.topic}_weeks", period=round(datetime(2015, 5, 14, tzinfo=UTC).timestamp() * 1000)
    )

    def lines() -> list[dict[str, Any]]:
        return [row for found in behind.find(query).batches() for row in found.to_pylist()]

    behind.nightly(DAY)
    before, day = lines(), behind.days.get(DAY)
    for place, claims in places(behind.settings, behind.topic):
        age(behind.settings, partition_directory(behind.settings, *astuple(place)), claims.files())
    assert sum(done.merged for done in compact(behind.settings, behind.topic)) > PARTITIONS
    assert lines() == before
    behind.nightly(DAY)
    again = behind.days.get(DAY)
    assert day is not None
    assert again is not None
    assert (again.raw_lines, again.lines) == (day.raw_lines, day.lines)
    reconcile(behind.settings, behind.topic, DAY, again.cut)


def test_a_file_that_is_gone_is_named(behind: Behind) -> None:
    query = LinesQuery(
        task=f"{behind.topic}_weeks", period=round(datetime(2015, 5, 14, tzinfo=UTC).timestamp() * 1000)
    )
    whole = behind.find(query)
    assert (whole.count(), whole.doubts()) == (whole.basis.result.counted, [])
    t = schema.archive_files.c
    with behind.database.connect() as connection:
        path = connection.scalars(sa.select(t.path).where(t.topic == behind.topic, t.first == 0)).first()
    HdfsStore.of(behind.settings).delete(path)
    found = behind.find(query)
    assert found.count() < whole.found
    (doubt,) = found.doubts()
    assert path in doubt


def test_a_day_that_retention_dropped_says_since_when(behind: Behind) -> None:
    RetentionBook(behind.database, behind.topic).mark_dropped([date(2015, 6, 1)])
    (task,) = (each for each in behind.tasks.list(behind.topic) if each.name.endswith("_new"))
    start = round(datetime(2015, 6, 1, tzinfo=UTC).timestamp() * 1000)
    assert shown(start, behind.tasks.version(task.task_id, 1)) == "2015-06-01T00:00:00Z"
    with pytest.raises(ResultsDropped, match=f"2015-06-01 are gone since {datetime.now(UTC):%Y-%m}"):
        behind.find(LinesQuery(task=task.name, period=start))


def sluice(behind: Behind, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice.cli.main", "--instance", behind.settings.instance, *arguments]
    env = os.environ | {"SLUICE_POSTGRES__DATABASE": behind.settings.postgres.database}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)

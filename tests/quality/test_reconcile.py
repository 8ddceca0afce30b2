"""A day through the nightly job, reconciliation and publication, on the running stack."""

from __future__ import annotations

import json
import random
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from sluice.archive import index
from sluice.batch import day_job, offline
from sluice.batch.offline import DaysFailed, record_uncounted
from sluice.engine.rowkey import RowKey
from sluice.quality.day_comparison import compare_day
from sluice.quality.docs import data_docs
from sluice.quality.reconcile import (
    NotComputed,
    ReconcileOutcome,
    ReconciliationFailed,
    reconcile,
    speed_passed,
)
from sluice.results.layer_results import ResultLayer, layer_results
from sluice.results.layers import StoredLayers
from sluice.results.query import Query
from sluice.results.reader import read
from sluice.runtime.days import begin_ms
from sluice.runtime.settings import Settings
from sluice.storage.hbase import FINAL, FINAL_ERROR, ONLINE, ONLINE_ERROR, RESULTS, HBase
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import Hive
from sluice.storage.partitions import LOGS, TASK_RESULTS, DaysAbsent, restore
from sluice.storage.postgres import engine
from sluice.storage.tables import open_periods, reconciled, schema, tallies
from sluice.storage.tables.commits import Version
from sluice.storage.tables.days import Day, Days
from sluice.storage.tables.open_periods import OpenPeriod
from sluice.storage.tables.retention import RetentionBook
from sluice.tasks.spec import ActiveTask, TaskSpec
from tests.quality.two_layers import Line, TwoLayers

pytestmark = pytest.mark.stack

DAY = date(2015, 5, 17)
HOSTILE = "/<script>alert('${env:HOME}')</script>_%25"
PATH = {"delimiter": " ", "index": 6}
SIZE = {"delimiter": " ", "index": 9}


def task(topic: str, name: str, period: str, **more: object) -> TaskSpec:
    spec = {"topic": topic, "name": f"{topic}_{name}", "period": period, "metrics": ["count"], **more}
    return TaskSpec.model_validate(spec)


def bytes_by_path(topic: str, *metrics: str) -> TaskSpec:
    return task(
        topic,
        "bytes",
        "1h",
        dimensions=[{"name": "path", "extract": PATH}],
        measure=SIZE,
        metrics=metrics,
    )


def lines(*texts: str, file: str = "a.log") -> list[Line]:
    made, offset = [], 0
    for text in texts:
        made.append((file, offset, text.encode()))
        offset += len(text.encode()) + 1
    return made


def line(time: str = "17/May/2015:10:05:03", path: str = "/", size: str = "0.1") -> str:
    return f'h - - [{time} +0000] "GET {path} HTTP/1.1" 200 {size}'


class Topic(TwoLayers):
    """A topic with its nightly runs and reconciliations."""

    def __init__(self, settings: Settings, topic: str, spark: SparkSession) -> None:
        super().__init__(settings, topic)
        self.spark = spark

    @property
    def book(self) -> Days:
        return Days(self.database, self.topic)

    def nightly(self, day: date, *, marked: bool = False) -> list[Day]:
        """As jobs/nightly.py does, in this process."""
        run_id = secrets.token_hex(4)
        days = offline.days_to_compute(self.settings, self.topic, day, marked=marked)
        offline.run(self.spark, self.settings, self.topic, days, run_id)
        return self.book.of_run(run_id)

    def reconcile(self, day: date = DAY) -> ReconcileOutcome:
        computed = self.book.get(day)
        assert computed is not None
        assert speed_passed(self.settings, self.topic, computed.day, computed.cut)
        return reconcile(self.settings, self.topic, day, computed.cut)

    def cells(self, label: str) -> dict[RowKey, dict[bytes, bytes]]:
        with HBase.of(self.settings) as store:
            return {
                RowKey.decode(row): cells for row, cells in store.scan(RESULTS, prefix=f"{label}_".encode())
            }

    def put(self, row: RowKey, text: str) -> None:
        with HBase.of(self.settings) as store:
            store.put(RESULTS, [(row.encode(), {ONLINE: text.encode()})])

    def delete(self, row: RowKey) -> None:
        with HBase.of(self.settings) as store:
            store.delete(RESULTS, [(row.encode(), [ONLINE])])

    def history(self) -> list[tuple[str, int, int, dict[str, object]]]:
        with Hive(self.settings) as hive:
            found = hive.query(
                "SELECT outcome, compared, differing, details FROM reconciliations "
                "WHERE topic = %(topic)s AND day = %(day)s ORDER BY run_at",
                {"topic": self.topic, "day": DAY.isoformat()},
            )
        return [(*row[:3], json.loads(row[3])) for row in found.rows]

    def waiting(self) -> dict[Version, list[OpenPeriod]]:
        return open_periods.of_topic(self.database, self.topic)

    def sql(self, text: str) -> list[tuple[object, ...]]:
        with Hive(self.settings) as hive:
            return hive.query(text, {"topic": self.topic}).rows


@pytest.fixture
def topic(stack: Settings, spark: SparkSession) -> Iterator[Topic]:
    made = Topic(stack, f"reconcile_{secrets.token_hex(4)}", spark)
    yield made
    made.forget()


def test_a_day_is_compared_published_and_computed_again_when_a_line_is_late(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic.topic
    topic.apply(
        bytes_by_path(name, "count", "sum", "avg", "min", "max"),
        task(name, "minutes", "1m"),
        task(name, "week", "7d"),
    )
    first = lines(*(line(path=f"/{n % 7}", size=f"0.{n}") for n in range(200)), line(path=HOSTILE))
    topic.both(first, 0)
    topic.both(
        [*first[:50], *lines("no time", line(path="/" + "x" * 2000), file="b.log")], 0
    )  # doubled; dead; skipped by one task
    topic.apply(bytes_by_path(name, "count", "sum"))  # version 2 counts from here on
    topic.both(lines(*(line("18/May/2015:00:00:00"), line(), line(size="-")), file="c.log"), 1)

    (computed,) = topic.nightly(DAY)
    assert (computed.raw_lines, computed.lines) == (201 + 50 + 1 + 2, 201 + 1 + 2)
    assert topic.sql("SELECT count(*) FROM raw WHERE topic = %(topic)s") == [(201 + 52 + 3,)]
    assert topic.sql("SELECT count(*), count(DISTINCT line) FROM logs WHERE topic = %(topic)s")[0][0] == 204

    _plant_and_find_differences(topic)

    agreed = topic.reconcile()
    assert agreed.outcome == "agrees", agreed.message
    assert agreed.compared == len(_finals(topic)) > 0
    assert "3 periods wait" not in agreed.message
    assert "1 periods wait for other days" in agreed.message  # the week, because the 18th is not computed yet
    published = topic.book.get(DAY)
    assert published is not None
    assert published.published_cut == published.cut
    assert published.is_final
    assert topic.book.marked() == []
    assert _read(topic) == (_values(_finals(topic)), {"final"})

    monkeypatch.setattr(day_job, "PARTITION_BYTES", 600)  # from here on the day is a large one
    _count_a_late_line(topic)
    assert not speed_passed(topic.settings, name, DAY, {"1": 1_000_000})

    again = topic.reconcile()
    assert again.outcome == "agrees", again.message
    assert "wait" not in again.message  # both days of the week that have lines are computed
    finals = _finals(topic)
    assert len(finals) > agreed.compared
    assert _read(topic) == (_values(finals), {"final"})
    assert all(cells[FINAL] == cells[ONLINE] for cells in finals.values())
    outcomes = [outcome for outcome, *_ in topic.history()]
    assert outcomes == ["differs", "agrees", "superseded", "agrees"]
    _pages_are_there(topic)


def test_what_tasks_skip_is_counted_and_compared_in_both_layers(topic: Topic) -> None:
    name = topic.topic
    by_status = [{"name": "status", "extract": {"field": "status"}}]
    by_path = [{"name": "path", "extract": {"field": "path"}}]
    topic.apply(
        task(name, "status", "1m", dimensions=by_status), task(name, "path", "1h", dimensions=by_path)
    )
    long = line(path="/" + "x" * 2000)
    odd = ["no log [17/May/2015:10:05:03 +0000]", line().replace("GET / HTTP/1.1", "-")]
    topic.both(lines(line(), long, *odd, line(path="/two words")))
    # As a driver of an earlier release: it gave the line up for all tasks, because of one.
    given_up = topic.records(lines(long, file="old.log"))
    topic.archive(given_up)
    _give_up(topic, given_up)
    topic.nightly(DAY)
    agreed = topic.reconcile()
    assert agreed.outcome == "agrees", agreed.message
    details = topic.history()[-1][3]
    paths, statuses = (
        f"{name}_{each.name.rpartition('_')[2]} ({each.label})" for each in topic.tasks.list(name)
    )
    assert details["skipped"] == {
        f"topic {name}": {"unmatched": 1, "too_long": 0},
        statuses: {"unmatched": 1, "too_long": 0},
        paths: {"unmatched": 2, "too_long": 1},
    }
    (path, status) = (task.key for task in topic.tasks.list(name))
    for layers in (tallies.ONLINE, tallies.OFFLINE):
        found = tallies.of_day(topic.database, name, DAY, layers)
        assert found == {
            tallies.TOPIC: tallies.Tally(4, 0, 1, 0),
            path: tallies.Tally(2, 0, 2, 1),
            status: tallies.Tally(4, 0, 1, 0),
        }
        reasons = {each.reason for each in tallies.samples(topic.database, name, path, layers=layers)}
        assert reasons == {"path: nothing was extracted", "value of dimension path is over 1024 bytes"}

    t = schema.tallies
    mine = (t.c.topic == name, t.c.layer == "online", t.c.task_id == path[0])
    for change, outcome in ((1, "differs"), (-1, "agrees")):
        with topic.database.begin() as connection:
            connection.execute(sa.update(t).where(*mine).values(unmatched=t.c.unmatched + change))
        found = topic.reconcile()
        assert found.outcome == outcome, found.message
        assert ("unmatched" in found.message) == (outcome == "differs")
    with topic.database.begin() as connection:  # as if an earlier release had counted the lines
        connection.execute(sa.delete(t).where(t.c.topic == name, t.c.layer == "online"))
    assert topic.reconcile().outcome == "agrees"
    assert topic.history()[-1][3]["skipped"] is None


def _give_up(topic: Topic, records: pa.RecordBatch) -> None:
    (row,) = records.to_pylist()
    letter = {"partition": 0, "offset": row["offset"], "line_in_record": 0, "bytes": len(row["line"])}
    letter |= {"reason": "dimension over 1024 bytes", "line": b"x", "arrived_at": datetime.now(UTC)}
    topic.count(records.slice(0, 0), {"0": row["offset"] + 1})
    with topic.database.begin() as connection:
        connection.execute(sa.insert(schema.dead_letters).values(topic=topic.topic, **letter))


def _pages_are_there(topic: Topic) -> None:
    """Data Docs have a page for each comparison, and nothing hostile in them."""
    name = topic.topic
    pages = list(data_docs(topic.settings).parent.glob(f"validations/results/{name} {DAY}/*/*.html"))
    assert len(pages) == 3
    assert all("<script>alert(" not in page.read_text() for page in pages)
    assert f"{name} {DAY}" in data_docs(topic.settings).read_text()


def _count_a_late_line(topic: Topic) -> None:
    """A late line marks its day, and the next day's night computes both days."""
    late = topic.records(lines(line(path="/0", size="7"), file="late.log"), 1)
    topic.count(late)
    assert topic.book.marked() == [DAY]
    assert _read(topic)[1] == {"superseded"}
    assert topic.reconcile().outcome == "superseded"
    topic.archive(late, 1)
    days = topic.nightly(date(2015, 5, 18), marked=True)
    assert [(day.day, day.lines, day.is_final) for day in days] == [
        (DAY, 205, False),
        (date(2015, 5, 18), 1, False),
    ]
    assert topic.book.marked() == []


def _labels(topic: Topic) -> list[str]:
    return [f"{t.task_id}v{v}" for t in topic.tasks.list(topic.topic) for v in range(1, t.version + 1)]


def _finals(topic: Topic) -> dict[RowKey, dict[bytes, bytes]]:
    cells = {row: cells for label in _labels(topic) for row, cells in topic.cells(label).items()}
    return {row: found for row, found in cells.items() if FINAL in found}


def _read(topic: Topic) -> tuple[dict[RowKey, float], set[str]]:
    """What the reader finds of all the topic's versions, and the states of their periods."""
    layers, values, states = StoredLayers(topic.settings), dict[RowKey, float](), set[str]()
    for task in topic.tasks.list(topic.topic):
        for version in range(1, task.version + 1):
            (answer,) = read(layers, Query(tasks=(task.name,), version=version))
            for row in answer.table().to_pylist():
                states.add(row["state"])
                start = round(row["period"].timestamp() * 1000)
                dims = tuple((name, row[name]) for name in answer.dimensions)
                for name in answer.metrics:
                    if row[name] is not None:
                        values[RowKey(task.task_id, version, dims, name, start)] = row[name]
    return values, states


def _values(finals: dict[RowKey, dict[bytes, bytes]]) -> dict[RowKey, float]:
    return {row: float(cells[FINAL]) for row, cells in finals.items()}


def _plant_and_find_differences(topic: Topic) -> None:
    (label,) = (f"{t.task_id}v1" for t in topic.tasks.list(topic.topic) if t.name.endswith("_bytes"))
    rows = topic.cells(label)
    changed = next(row for row in rows if row.metric == "count" and row.dimensions[0][1] == HOSTILE)
    removed = next(row for row in rows if row.metric == "sum" and row.dimensions[0][1] == "/3")
    added = RowKey(changed.task_id, 1, (("path", "/never"),), "count", changed.period_start)
    kept = rows[removed][ONLINE].decode()
    topic.put(changed, "2")
    topic.put(added, "1")
    topic.delete(removed)

    outcome = topic.reconcile()
    assert (outcome.outcome, outcome.differing) == ("differs", 3)
    named = {(d.dimensions["path"], d.metric, d.online, d.offline) for d in outcome.differences}
    assert named == {
        (HOSTILE, "count", "2", "1"),
        ("/never", "count", "1", None),
        ("/3", "sum", None, kept),
    }
    with pytest.raises(ReconciliationFailed) as failure:
        outcome.check()
    for part in (f"{topic.topic}_bytes ({label})", "2015-05-17T10:00:00Z", HOSTILE, "count", "hop"):
        assert part in str(failure.value)
    assert _finals(topic) == {}
    day = topic.book.get(DAY)
    assert day is not None
    assert day.published_at is None

    topic.put(changed, "1")
    topic.put(removed, kept)
    topic.delete(added)


def test_sketched_results_agree_within_what_they_state(topic: Topic) -> None:
    chance = random.Random(17)  # noqa: S311
    metrics = ["count", "unique", "stddev", "p50", "p99", "top10"]
    name = topic.topic
    topic.apply(
        task(name, "hours", "1h", measure=SIZE, metrics=metrics),
        # Its day begins at 22:00 UTC, so each period has lines of two days of the batch layer.
        task(
            name, "days", "1d", timezone="Europe/Berlin", measure={**SIZE, "type": "text"}, metrics=["top3"]
        ),
    )
    for batch in range(4):
        sizes = [str(int(chance.expovariate(0.0001))) for _ in range(1000)]
        times = [f"17/May/2015:{chance.choice((10, 23))}:05:{n % 60:02}" for n in range(1000)]
        some = [line(time, size=size) for time, size in zip(times, sizes, strict=True)]
        topic.both(lines(*some, file=f"{batch}.log"), batch % 2)
    topic.both(lines(line("18/May/2015:12:00:00", size="7"), file="next.log"), 0)

    for day in (DAY, date(2015, 5, 18)):
        topic.nightly(day)
    first, second = topic.reconcile(), topic.reconcile(date(2015, 5, 18))
    assert (first.outcome, second.outcome) == ("agrees", "agrees"), (first.message, second.message)

    finals = _finals(topic)
    assert {row.metric for row in finals} == {*metrics, "top3"}
    quantiles = [row for row in finals if row.metric == "p99" and float(finals[row][ONLINE_ERROR]) > 0]
    assert len(quantiles) == 2  # 10:00 and 23:00
    assert all(float(finals[row][FINAL_ERROR]) > 0 for row in quantiles)
    assert all(ONLINE_ERROR not in cells for row, cells in finals.items() if row.metric == "count")
    (shared,) = (row for row in finals if row.metric == "top3" and row.period_start == 1431900000000)
    assert sum(count for _, count in json.loads(finals[shared][FINAL])) > 0

    planted = quantiles[0]
    text = finals[planted][ONLINE].decode()
    error = float(finals[planted][ONLINE_ERROR]) + float(finals[planted][FINAL_ERROR])
    topic.put(planted, repr(float(finals[planted][FINAL]) + 1.01 * error))
    outcome = topic.reconcile()
    assert (outcome.outcome, outcome.differing) == ("differs", 1)
    assert outcome.differences[0].metric == "p99"
    assert "±" in str(outcome.differences[0])
    topic.put(planted, text)
    assert topic.reconcile().outcome == "agrees"


def test_a_version_that_one_night_could_not_count_is_compared_on_the_next_day(topic: Topic) -> None:
    following = date(2015, 5, 18)
    topic.apply(task(topic.topic, "quarters", "6h", timezone="Europe/Berlin"))
    (counted,) = topic.tasks.active(topic.topic)
    times = ("17/May/2015:10:00:00", "17/May/2015:23:00:00", "18/May/2015:12:00:00")
    topic.both(lines(*map(line, times)))
    for day in (DAY, following):
        topic.nightly(day)
    record_uncounted(
        topic.database, topic.topic, DAY, {(counted.task_id, counted.version): "raised that night"}
    )
    outcome = topic.reconcile(following)
    assert (outcome.outcome, outcome.compared) == ("agrees", 1), outcome.message
    assert "1 periods wait" in outcome.message  # the one that both days share
    assert topic.reconcile().compared == 0
    record_uncounted(topic.database, topic.topic, DAY, {})
    fixed = topic.reconcile()
    assert (fixed.outcome, fixed.compared) == ("agrees", 2), fixed.message


def test_a_version_that_began_below_the_cut_after_the_computation_marks_the_day(topic: Topic) -> None:
    topic.apply(task(topic.topic, "minutes", "1m"))
    records = topic.records(lines(line(), line()), 0)
    topic.archive(records)
    (early,) = topic.nightly(DAY)  # the speed layer is behind, so it is not known yet which versions count
    assert early.lines == 2
    assert not speed_passed(topic.settings, topic.topic, early.day, early.cut)
    topic.count(records)
    assert topic.reconcile().outcome == "superseded"
    assert topic.book.marked() == [DAY]
    topic.nightly(DAY)
    assert topic.reconcile().outcome == "agrees"


def test_a_day_without_lines_agrees_and_one_never_computed_is_named(topic: Topic) -> None:
    empty = date(1999, 1, 1)
    with pytest.raises(NotComputed, match="1999-01-01"):
        reconcile(topic.settings, topic.topic, empty, {})
    (computed,) = topic.nightly(empty)
    assert (computed.raw_lines, computed.lines, computed.cut) == (0, 0, {})
    outcome = topic.reconcile(empty)
    assert outcome.outcome == "agrees"
    assert reconciled.since(topic.database, outcome.run_at)[empty, topic.topic] == "agrees"
    assert engine(topic.settings) is topic.database


JUNE = "20/Jun/2015:12:00:00"


@contextmanager
def traffic(topic: Topic) -> Iterator[None]:
    """Lines of another day are counted without a pause; each commit's results come a while after it."""
    stopped = threading.Event()

    def count() -> None:
        number = 0
        while not stopped.is_set():
            topic.both(lines(line(JUNE), file=f"june{number}.log"), 2)
            number += 1

    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(count)
        try:
            yield
        finally:
            stopped.set()
            counting.result()


def test_under_steady_traffic_no_period_is_left_open_and_no_difference_hides(topic: Topic) -> None:
    following = date(2015, 5, 18)
    by_path = {"dimensions": [{"name": "path", "extract": PATH}]}
    topic.apply(
        task(topic.topic, "week", "7d", **by_path),
        task(topic.topic, "berlin", "1d", timezone="Europe/Berlin"),
    )
    times = ("17/May/2015:10:00:00", "17/May/2015:23:00:00", "18/May/2015:12:00:00")
    topic.both(lines(*map(line, times)))
    for day in (DAY, following):
        topic.nightly(day)
    computed = topic.book.get(DAY)
    assert computed is not None
    with traffic(topic):
        for _ in range(12):  # with the newest commit instead of the newest projected one, 36 of 100 failed
            found = compare_day(topic.settings, topic.book, computed)
            assert found.agrees, found.message()
            assert (len(found.frame), found.open_periods) == (3, ())  # the week, and two days of Berlin
        (label,) = (f"{t.task_id}v1" for t in topic.tasks.list(topic.topic) if t.name.endswith("_week"))
        (week,) = (row for row in topic.cells(label) if row.period_start < 1_432_000_000_000)
        # A series without lines: the traffic writes the results of all others again and again.
        topic.put(RowKey(week.task_id, 1, (("path", "/never"),), "count", week.period_start), "1")
        for _ in range(6):
            assert compare_day(topic.settings, topic.book, computed).differing == 1


@pytest.mark.parametrize("damage", ["gone", "lines", "footer"])
def test_a_night_names_the_archive_s_file_that_it_cannot_read(topic: Topic, damage: str) -> None:
    topic.both(lines(*(line(path=f"/{n}") for n in range(500))))
    (file,) = index.files_for(topic.settings, topic.topic, None, {0: 500})
    store = HdfsStore.of(topic.settings)
    sound = store.read(file.path)
    store.delete(file.path)
    if damage != "gone":
        begin, end = (100, 1_500) if damage == "lines" else (len(sound) - 8, len(sound))
        store.write(file.path, sound[:begin] + bytes(end - begin) + sound[end:])
    with pytest.raises(DaysFailed, match=f"the archive's file {file.path} cannot be read"):
        topic.nightly(DAY)


@pytest.mark.parametrize("table", [LOGS, TASK_RESULTS])
def test_a_computed_day_that_is_absent_is_an_error_and_no_day_of_zeros(topic: Topic, table: str) -> None:
    topic.apply(task(topic.topic, "hours", "1h"))
    topic.both(lines(line()))
    topic.nightly(DAY)
    with Hive(topic.settings) as hive:
        hive.drop_partition(table, topic.topic, DAY)
        with pytest.raises(DaysAbsent, match=f"{table} has no partition of {topic.topic} {DAY}"):
            topic.reconcile()
        if table == TASK_RESULTS:  # who reads one layer by itself gets no zeros either
            own = ActiveTask(
                topic.tasks.get(f"{topic.topic}_hours").task_id, 1, task(topic.topic, "hours", "1h")
            )
            with pytest.raises(DaysAbsent, match="`sluice up` shows it again"):
                layer_results(topic.settings, own, ResultLayer.OFFLINE)
            later = range(begin_ms(date(2016, 1, 1)), begin_ms(date(2016, 1, 2)))
            assert layer_results(topic.settings, own, ResultLayer.OFFLINE, later).num_rows == 0
        assert restore(hive) >= 1
    assert topic.reconcile().outcome == "agrees"


def test_an_open_period_is_compared_by_whichever_day_comes_next(topic: Topic) -> None:
    """The period lies in the 17th and the 18th, and is compared with the 19th, which comes first."""
    following, third = date(2015, 5, 18), date(2015, 5, 19)
    topic.apply(task(topic.topic, "berlin", "1d", timezone="Europe/Berlin"))
    times = ("17/May/2015:23:00:00", "18/May/2015:12:00:00", "19/May/2015:12:00:00")
    topic.both(lines(*map(line, times)))
    topic.nightly(DAY)
    assert "1 periods wait" in topic.reconcile().message
    shared = OpenPeriod(*next(iter(topic.waiting())), 1_431_900_000_000, 1_431_986_400_000)
    assert [*topic.waiting().values()] == [[shared]]
    before = datetime.now(UTC) + timedelta(seconds=1)
    (late,) = [each for each in open_periods.overdue(topic.database, before) if each.topic == topic.topic]
    assert "1 period has not been compared, the first begins at 2015-05-17T22:00:00Z" in str(late)

    for day in (following, third):
        topic.nightly(day)
    found = topic.reconcile(third)
    assert found.outcome == "agrees", found.message
    assert shared not in [each for some in topic.waiting().values() for each in some]
    assert topic.reconcile(following).outcome == "agrees"
    assert topic.waiting() == {}


def test_a_period_that_touches_a_dropped_day_waits_no_longer(topic: Topic) -> None:
    topic.apply(task(topic.topic, "berlin", "1d", timezone="Europe/Berlin"))
    topic.both(lines(*map(line, ("17/May/2015:23:00:00", "18/May/2015:12:00:00"))))
    topic.nightly(DAY)
    topic.reconcile()
    assert len(topic.waiting()) == 1
    RetentionBook(topic.database, topic.topic).mark_dropped([date(2015, 5, 18)])
    assert topic.waiting() == {}

"""Tasks are added, changed, paused, resumed, deleted or fail under load; a new topic.

Tasks that nobody touches lose no line and count none twice; tasks that are touched count exactly the lines
of their offset ranges. Plain Python computes from Kafka what they must count. The nights that follow
(test_nightly_and_reconcile) compare both layers on the same days.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pytest
import sqlalchemy as sa
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from sluice.engine.rowkey import RowKey
from sluice.storage.hbase import ONLINE, RESULTS, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.transmission.mac import identity_key
from sluice.transmission.topics import Topics
from sluice_lab.access_lines import access_line, access_lines
from sluice_lab.bench.headers import to_headers
from sluice_lab.waiting import until
from tests.e2e.running import DAYS, MINUTE, TOPIC, Platform

pytestmark = pytest.mark.e2e

DAY = DAYS[1]
SHOP = "shop"
LINES_AT_ONCE, PAUSE_SECONDS = 40, 0.2
READ_MS = 120_000
HOT = """
- name: hot
  topic: logs
  period: 1m
  dimensions: [{{name: {field}, extract: {{delimiter: " ", index: {index}}}}}]
  metrics: [count]
"""
FAILING = """
- name: failing
  topic: logs
  period: 1h
  measure: {delimiter: " ", index: 9}
  metrics: [count, fails_below_zero]
"""
ENDS_BADLY = """
- name: {name}
  topic: logs
  period: 1h
  dimensions: [{{name: status, extract: {{field: status}}}}]
  measure: {{delimiter: " ", index: 9}}
  metrics: [count, {name}]
"""
SHOP_TOPIC = """
- name: shop
  format: json
  time: {extract: {field: at}, format: iso8601}
"""
SHOP_TASK = """
- name: orders_by_country
  topic: shop
  period: 1m
  dimensions: [{name: country, extract: {field: customer.country}}]
  measure: {field: total}
  metrics: [count, sum]
"""

Offsets = Mapping[int, int]


@contextmanager
def lines_all_the_time(platform: Platform) -> Iterator[None]:
    """Write good lines of the day to both front-ends in turn, as long as this lasts."""
    enough = threading.Event()

    def write() -> None:
        number = 0
        while not enough.wait(PAUSE_SECONDS):
            host = ("web1", "web2")[number % 2]
            platform.write(DAY, access_lines(DAY, LINES_AT_ONCE, seed=1000 + number), host)
            number += 1

    writer = threading.Thread(target=write, name="lines")
    writer.start()
    try:
        yield
    finally:
        enough.set()
        writer.join()


def done(platform: Platform, *arguments: str, text: str | None = None) -> str:
    """Run a command of `sluice` that must succeed; returns what it printed."""
    finished = platform.sluice(*arguments, text=text)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def ranges(platform: Platform, name: str) -> dict[str, list[tuple[Offsets, Offsets | None]]]:
    """The offset ranges of each version of a task, deleted or not, by label."""
    r, t = schema.task_ranges.c, schema.tasks.c
    query = (
        sa.select(r.task_id, r.version, r.start, r.end)
        .join(schema.tasks, t.id == r.task_id)
        .where(t.name == name, r.topic == TOPIC)
        .order_by(r.first_seq)
    )
    found: dict[str, list[tuple[Offsets, Offsets | None]]] = {}
    with engine(platform.settings).connect() as connection:
        for row in connection.execute(query):
            start, end = ({int(p): o for p, o in each.items()} if each else None for each in row[2:])
            assert start is not None
            found.setdefault(f"{row.task_id}v{row.version}", []).append((start, end))
    return found


def lines_of(platform: Platform, versions: list[tuple[Offsets, Offsets | None]]) -> list[str]:
    """The lines in these ranges, read from Kafka; those that Flume sent twice are there twice."""
    with Topics(platform.settings) as topics:
        bounds = {p: topics.bounds(TOPIC, p) for p in topics.describe(TOPIC).partitions}
    found = []
    for start, end in versions:
        for partition, (first, last) in bounds.items():
            until = last if end is None else end.get(partition, last)
            found += _read(platform, partition, max(first, start.get(partition, first)), until)
    return found


def _read(platform: Platform, partition: int, first: int, until: int) -> list[str]:
    if first >= until:
        return []
    at, found = TopicPartition(TOPIC, partition), []
    consumer = KafkaConsumer(
        bootstrap_servers=platform.settings.kafka.bootstrap, consumer_timeout_ms=READ_MS, group_id=None
    )
    consumer.assign([at])
    consumer.seek(at, first)
    for record in consumer:
        if record.offset < until:
            found += record.value.decode().split("\n")  # a block of lines
        if record.offset >= until - 1:
            break
    consumer.close()
    return found


def counted_by(field: int, lines: list[str]) -> Counter[tuple[int, str]]:
    found: Counter[tuple[int, str]] = Counter()
    for line in lines:
        parts = line.split(" ")
        when = dt.datetime.strptime(f"{parts[3][1:]} {parts[4][:-1]}", "%d/%b/%Y:%H:%M:%S %z")
        found[int(when.timestamp()) * 1000 // MINUTE * MINUTE, parts[field]] += 1
    return found


def online(platform: Platform, label: str) -> dict[tuple[int, str], int]:
    """The counts of a version with one dimension."""
    found = {}
    with HBase.of(platform.settings) as store:
        for row, cells in store.scan(RESULTS, prefix=f"{label}_".encode(), columns=[ONLINE]):
            key = RowKey.decode(row)
            if key.metric == "count":
                found[key.period_start, key.dimensions[0][1] if key.dimensions else ""] = int(cells[ONLINE])
    return found


def batches_late(platform: Platform, name: str, changed: list[dt.datetime]) -> list[int]:
    """For each change of a task, in order: how many later batches still counted as before."""
    r, c, t = schema.task_ranges.c, schema.commits.c, schema.tasks.c
    query = sa.select(r.first_seq, r.end).join(schema.tasks, t.id == r.task_id).where(t.name == name)
    commits = sa.select(c.seq, c.start, c.committed_at).where(c.topic == TOPIC).order_by(c.seq)
    with engine(platform.settings).connect() as connection:
        made = connection.execute(commits).all()
        edges = set()
        for row in connection.execute(query):
            edges.add(row.first_seq)
            edges.add(next(commit.seq for commit in made if commit.start == row.end))
    return [
        sum(commit.committed_at > at and commit.seq < edge for commit in made)
        for at, edge in zip(changed, sorted(edges), strict=True)
    ]


def test_tasks_change_under_load(platform: Platform) -> None:
    before = platform.drain().doubled
    changed = []

    def change(*arguments: str, text: str | None = None) -> None:
        done(platform, *arguments, text=text)
        changed.append(dt.datetime.now(dt.UTC))

    with lines_all_the_time(platform):
        change("tasks", "apply", "-f", "-", text=HOT.format(field="status", index=8))
        _taken_up(platform, "hot", versions=1)
        change("tasks", "apply", "-f", "-", text=HOT.format(field="client", index=0) + FAILING)
        _taken_up(platform, "hot", versions=2)
        _taken_up(platform, "failing", versions=1)
        change("tasks", "pause", "hot")
        until(lambda: _closed(platform, "hot"), what="hot is paused")
        wrong = access_line(_noon(), client="10.13.13.13", path="/13", status="200", size="-13")
        platform.write(DAY, [wrong])
        until(lambda: _closed(platform, "failing"), what="failing is set aside")
        change("tasks", "resume", "hot")
        until(lambda: not _closed(platform, "hot"), what="hot is resumed")
        change("tasks", "delete", "hot", "--yes")
        until(lambda: _closed(platform, "hot"), what="hot is deleted")
    assert platform.drain().doubled == before  # doubles are in Kafka twice but count once
    platform.assert_online_is_exact(DAY)

    # The batch under way may end without the change; the next one has it.
    assert max(batches_late(platform, "hot", changed)) <= 1
    versions = ranges(platform, "hot")
    first, second = versions
    assert [len(each) for each in versions.values()] == [1, 2]  # the second was paused once
    for label, field in ((first, 8), (second, 0)):
        lines = lines_of(platform, versions[label])
        assert lines
        assert online(platform, label) == counted_by(field, lines), label
    paused_at, resumed_at = versions[second][0][1], versions[second][1][0]
    assert lines_of(platform, [(paused_at or {}, resumed_at)])
    assert (versions[first][0][1]) == versions[second][0][0]  # not a line between them

    shown = json.loads(done(platform, "tasks", "list", "--format", "json"))
    (failed,) = (task for task in shown if task["task"] == "failing")
    assert failed["state"] == "failed"
    for part in ("fails_below_zero.py", "ArithmeticError: below zero"):
        assert part in failed["error"]
    done(platform, "tasks", "delete", "failing", "--yes")


def test_metrics_that_hang_exit_or_take_memory_without_end_stop_only_their_tasks(platform: Platform) -> None:
    said = {
        "hangs": "failed in add: it did not end within 10 s",
        "exits": "failed in add: it ended its process with exit code 3",
        "grows": "failed in add: it took more than 512 MiB of memory",
    }
    mended = platform.settings.home / "faults" / "mended"
    mended.unlink(missing_ok=True)
    done(platform, "tasks", "apply", "-f", "-", text="".join(ENDS_BADLY.format(name=name) for name in said))
    with lines_all_the_time(platform):
        for name in said:
            _taken_up(platform, name, versions=1)
        whose = {"client": "10.14.14.14", "path": "/14", "status": "200"}
        platform.write(DAY, [access_line(_noon(), **whose, size=str(size)) for size in (-14, -15, -16)])
        for name in said:
            until(partial(_closed, platform, name), what=f"{name} is set aside")
    platform.drain()
    platform.assert_online_is_exact(DAY)
    errors = {task["task"]: task["error"] for task in _listed(platform)}
    alerts = [alert["message"] for alert in json.loads(done(platform, "status", "--json"))["alerts"]]
    for name, why in said.items():
        assert f"metric '{name}' of ends_badly.py {why}" in errors[name]
        assert [each for each in alerts if f"task {name} (" in each and why in each]

    mended.parent.mkdir(exist_ok=True)
    mended.touch()  # and it stays: the nights count these lines, too
    done(platform, "tasks", "resume", "hangs", "--anew")
    _taken_up(platform, "hangs", versions=2)
    done(platform, "tasks", "backfill", "hangs", "--from", str(DAY), "--to", str(DAY))
    labels = {task["task"]: task["id"] for task in _listed(platform)}

    def of_day(task: str) -> Counter[str]:
        """The day's lines of each status."""
        begin, found = _ms(DAY), Counter[str]()
        for (start, status), count in online(platform, labels[task]).items():
            found[status] += count if begin <= start < begin + 24 * 60 * MINUTE else 0
        return found

    until(lambda: of_day("hangs") == of_day("hits_by_status"), what="every line is counted once")
    for name in said:
        done(platform, "tasks", "delete", name, "--yes")


def _ms(day: dt.date) -> int:
    return int(dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC).timestamp()) * 1000


def test_a_new_topic_of_json_gets_its_own_query(platform: Platform) -> None:
    done(platform, "topics", "apply", "-f", "-", text=SHOP_TOPIC)
    with Topics(platform.settings) as topics:
        topics.create(SHOP)
    done(platform, "tasks", "apply", "-f", "-", text=SHOP_TASK)
    producer = KafkaProducer(bootstrap_servers=platform.settings.kafka.bootstrap, acks="all")
    wanted: Counter[tuple[int, str]] = Counter()
    offset, key = 0, identity_key(platform.settings)
    with lines_all_the_time(platform):
        for number in range(600):
            when = _noon() + dt.timedelta(seconds=number)
            country = ("de", "fr", "it")[number % 3]
            line = json.dumps(
                {"at": when.isoformat(), "customer": {"country": country}, "total": number}
            ).encode()
            producer.send(SHOP, line, headers=to_headers("shop1", "orders.json", offset, line, key))
            offset += len(line) + 1
            wanted[int(when.timestamp()) * 1000 // MINUTE * MINUTE, country] += 1
        bad = b"{no json"
        producer.send(SHOP, bad, headers=to_headers("shop1", "orders.json", offset, bad, key))
        producer.flush()
        (task,) = (t for t in _listed(platform) if t["task"] == "orders_by_country")
        until(lambda: online(platform, task["id"]) == wanted, what="the orders are counted")
    tried = done(platform, "tasks", "test", "orders_by_country", "--sample", "50", "--json")
    newest = json.loads(tried)[0]["lines"]
    assert len({each["line"] for each in newest}) == 50
    assert all(each["counted"] == ('"customer"' in each["line"]) for each in newest)
    platform.drain()
    platform.drain(topic=SHOP)
    platform.assert_online_is_exact(DAY)
    producer.close()


def _listed(platform: Platform) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(done(platform, "tasks", "list", "--format", "json"))
    return found


def _taken_up(platform: Platform, name: str, versions: int) -> None:
    until(lambda: len(ranges(platform, name)) == versions, what=f"{name} has a commit of version {versions}")


def _closed(platform: Platform, name: str) -> bool:
    """Whether no version of the task counts now."""
    return all(each[-1][1] is not None for each in ranges(platform, name).values())


def _noon() -> dt.datetime:
    return dt.datetime.combine(DAY, dt.time(12), dt.UTC)

"""A published day from which lines are erased, on the running stack: the next night agrees without them.

The test counts the state and results again itself, as a rebuild would (`tests/e2e/test_erase.py` has one).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from sluice.archive import layout
from sluice.archive.verification import places, verify
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.results import results
from sluice.erasure.redaction_run import RedactionRun
from sluice.erasure.request import ErasureRequest
from sluice.erasure.vanished import delete_vanished
from sluice.quality.reconcile import speed_passed
from sluice.state.cells import online_cells
from sluice.storage.hbase import RESULTS, HBase
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.erasures import Erasures, ErasureState
from sluice.tasks.spec import TopicSpec
from tests.archive.aged import age
from tests.quality.test_reconcile import DAY, Topic, lines, task, topic

__all__ = ["topic"]  # a fixture

pytestmark = pytest.mark.stack

PERSON = "10.0.0.1"


def line(client: str, minute: int) -> str:
    return f'{client} - - [17/May/2015:10:{minute:02}:03 +0000] "GET /{minute % 5} HTTP/1.1" 200 17'


def aged(topic: Topic) -> Callable[[float], None]:
    """Lets all files of the topic's archive be a day older."""

    def pause(seconds: float) -> None:
        for place, claims in places(topic.settings, topic.topic):
            found = claims.standing()
            files = [*found.files.values(), *(each.file for each in found.replaced)]
            at = layout.partition_directory(topic.settings, topic.topic, place.topic_id, place.partition)
            age(topic.settings, at, files, days=1)

    return pause


def count_again(topic: Topic, records: pa.RecordBatch) -> None:
    """Write the results of just these lines, as a rebuild does."""
    active = topic.tasks.active(topic.topic)
    plan = EnginePlan.of(active, topic.settings.limits, TopicSpec(name=topic.topic))
    versions = {(each.task_id, each.version): each for each in active}
    found = results(merge(count(records, plan).partials), versions)
    with HBase.of(topic.settings) as hbase:
        hbase.put_table(RESULTS, online_cells(found), timestamp=time.time_ns() // 1_000_000)


def test_the_next_night_agrees_without_the_lines_and_nothing_has_them(topic: Topic) -> None:
    name = topic.topic
    client = {"name": "client", "extract": {"field": "client"}}
    topic.apply(task(name, "clients", "1h", dimensions=[client]), task(name, "minutes", "1m"))
    sent = lines(*(line(f"10.0.0.{n % 4}", n % 60) for n in range(80)))
    records = topic.records(sent)
    topic.archive(records)
    topic.count(records)
    topic.both(sent[:20])  # copies
    topic.nightly(DAY)
    assert topic.reconcile().outcome == "agrees"

    asked = ErasureRequest(name, "client", PERSON)
    erasure = asked.begin(topic.settings, "host:ann")
    run = RedactionRun(topic.settings, erasure, asked.lines(topic.settings, erasure.cut), lambda _: None)
    done = run.run(pause=aged(topic))
    assert (done.counts["lines"], done.counts["counted"], done.days) == (25, 20, (DAY,))
    cut = {str(partition): position for partition, position in topic.next.items()}
    assert not speed_passed(topic.settings, name, DAY, cut)
    with HBase.of(topic.settings) as hbase:
        assert delete_vanished(topic.settings, hbase, name, done.days) > 0  # this topic has no state at all
    labels = [each.label for each in topic.tasks.active(name)]
    assert [topic.cells(label) for label in labels] == [{}, {}]
    others = np.array([not text.startswith(PERSON.encode()) for _, _, text in sent])
    count_again(topic, records.filter(pa.array(others)))
    Erasures(topic.database).set_state(done.id, ErasureState.FINISHED)

    assert topic.book.marked() == [DAY]
    (computed,) = topic.nightly(DAY, marked=True)
    assert (computed.raw_lines, computed.lines) == (100, 60)
    agreed = topic.reconcile()
    assert agreed.outcome == "agrees", agreed.message
    assert topic.book.marked() == []
    for table, rows in (("raw", 100), ("logs", 60)):
        found = topic.sql(
            f"SELECT count(*), count_if(instr(CAST(line AS string), '{PERSON} ') > 0) FROM {table} "
            "WHERE topic = %(topic)s"
        )
        assert found == [(rows, 0)], table
    (verified,) = verify(topic.settings, name, deep=True)
    assert (verified.problems, verified.redacted) == ((), 25)


def test_the_redaction_and_backfills_of_the_topic_wait_for_each_other(topic: Topic) -> None:
    book = Backfills(topic.database)
    asked = book.request(1, 1, topic=topic.topic, first_day=DAY, last_day=DAY, user="ann")
    erasing, ended, filling = threading.Event(), threading.Event(), threading.Event()

    def erase() -> None:
        with book.unfilled(topic.topic) as still:
            erasing.set()
            ended.wait(10)
            still()

    def fill() -> None:
        with book.filling(asked):
            filling.set()

    with book.filling(asked), book.unfilled(f"{topic.topic}-other"):
        threading.Thread(target=erase, daemon=True).start()
        assert not erasing.wait(0.5)
    assert erasing.wait(10)
    threading.Thread(target=fill, daemon=True).start()
    assert not filling.wait(0.5)
    ended.set()
    assert filling.wait(10)

"""The archiver as a process: a thread a topic, one heartbeat, an orderly end on SIGTERM."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from sluice.archive import chain, indexing, rebalances
from sluice.archive.archiver import Archiver
from sluice.archive.chain import Link
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition, of_loss
from sluice.archive.heartbeat import Heartbeat
from sluice.archive.layout import partition_directory
from sluice.runtime.settings import Settings, get_settings
from sluice.stack.jobs import ARCHIVER
from sluice.stack.progress import progress_file
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.tasks.topics import TOPICS_SECONDS, TopicStore
from sluice.transmission.topics import Topics

# A topic whose thread does not end in time is left behind: what it had not archived is fetched again.
END_SECONDS = 30.0


class NoSuchGap(ValueError):
    """The archive has no gap at that offset."""


class _Thread:
    """A topic's archiver, in a thread of its own that can be stopped alone."""

    def __init__(self, settings: Settings, topic: str, heartbeat: Heartbeat, member: str) -> None:
        self._topic, self._heartbeat, self._stop = topic, heartbeat, threading.Event()
        archiver = Archiver(settings, topic, heartbeat, self._stop, member)
        self._thread = threading.Thread(target=archiver.run, name=f"archive {topic}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self) -> None:
        self._thread.join(END_SECONDS)

    def forget(self) -> None:
        """Stop it, and remove it from the heartbeat."""
        self.stop()
        self.join()
        self._heartbeat.forget(self._topic)


def archive(names: Sequence[str], progress: Path | None = None, member: str = ARCHIVER) -> int:
    """Archive these topics until SIGTERM or SIGINT; then flush and return 0.

    If none is named, archive all topics (`TopicStore.names`), new ones as they come. Trouble with one topic
    does not stop the others. member: this one's name in the groups, if there are several.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"
    )
    logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns of each poll that takes 0.1 s
    settings = get_settings()
    path, stop = progress or progress_file(settings, member), threading.Event()
    rebalances.died(engine(settings), path, member)
    heartbeat = Heartbeat(path)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threads: dict[str, _Thread] = {}
    while not stop.is_set():
        wanted = set(names or TopicStore(engine(settings)).names_or(threads))
        for topic in wanted - threads.keys():
            threads[topic] = _Thread(settings, topic, heartbeat, member)
        for topic in threads.keys() - wanted:
            threads.pop(topic).forget()
        stop.wait(TOPICS_SECONDS)
    for thread in threads.values():
        thread.stop()
    for thread in threads.values():
        thread.join()
    return 0


def declare_lost(topic: str, partition: int, first: int) -> int:
    """Close a gap between two files with an explicit loss record; prints what it did.

    See `record_gap`.
    """
    footer = record_gap(get_settings(), topic, partition, first)
    print(footer, file=sys.stderr)
    return 0


def record_gap(settings: Settings, topic: str, partition: int, first: int) -> str:
    """Declare the gap that begins at `first` lost; returns a sentence that names its offsets.

    Raises NoSuchGap where the archive of the topic's present incarnation has no gap there.
    """
    with Topics(settings) as topics:
        place = ArchivedPartition(topic, topics.describe(topic).id, partition)
    return record_loss(settings, place, first)


def record_loss(settings: Settings, place: ArchivedPartition, first: int) -> str:
    """The same in the archive of any incarnation. Raises NoSuchGap."""
    directory = partition_directory(settings, place.topic, place.topic_id, place.partition)
    claims = Claims(HdfsStore.of(settings), directory)
    footers = [claims.footer(file) for file in claims.files()]
    links = sorted(Link(footer.first, footer.next, claims.named(footer.name)) for footer in footers)
    ends = {before.next: after.first for before, after in pairwise(links)}
    following = ends.get(first, first)
    if following <= first:
        raise NoSuchGap(
            f"the archive of {place} has no gap that begins at offset {first}; its gaps: "
            + (", ".join(f"{a}-{b - 1}" for a, b in ends.items() if a < b) or "none")
        )
    why = f"offsets {first} to {following - 1} of {place} were missing between two files and declared lost"
    made = of_loss(place, first, following, why, generation=-1)
    standing, length = claims.publish(made)
    indexing.add(engine(settings), [(standing, length, claims.named(standing.name))])
    chain.check(place.topic, place.partition, indexing.reconcile(engine(settings), claims, place))
    return why

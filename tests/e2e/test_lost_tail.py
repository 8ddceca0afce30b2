"""Kafka loses the end of its log, as in a power cut, or gets an older volume.

Other lines come to its offsets, or the lost ones.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaProducer

from sluice.archive.verification import verify
from sluice.collection import deploy
from sluice.quality.audit import audit, kafka_ends
from sluice.quality.hops import Hops
from sluice.quality.reconcile import reconcile
from sluice.runtime.positions import PartitionLog
from sluice.stack import health, supervisord
from sluice.stack.environment import environment
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts, eras, open_losses
from sluice.storage.tables.days import Days
from sluice.storage.tables.reconciled import ComparisonOutcome
from sluice.transmission.topics import Topics
from sluice_lab.access_lines import access_lines
from sluice_lab.draining import DRAIN_SECONDS
from sluice_lab.waiting import until
from tests.e2e.running import COMMAND_SECONDS, TOPIC, Platform, expected

pytestmark = pytest.mark.e2e

DAY = dt.date(2024, 5, 1)
#: The day of the lines that the front-ends send again.
SENT_AGAIN = dt.date(2024, 5, 2)
BEFORE, AFTER, BYTES = 2_000, 1_500, 9_000
#: Lines that are in the copy of Kafka's volume.
COPIED = 500
TASK = """
- name: {topic}_hits
  topic: {topic}
  period: 1d
  dimensions: [{{name: path, extract: {{delimiter: " ", index: 6}}}}]
  metrics: [count]
"""


def lines(first: int, number: int) -> list[str]:
    at = f"{DAY.strftime('%d/%b/%Y')}:10:00:00 +0000"
    return [f'h - - [{at}] "GET /{n} HTTP/1.1" 200 {n}' for n in range(first, first + number)]


def send(platform: Platform, topic: str, texts: list[str]) -> None:
    """As a producer does that knows nothing of identities."""
    producer = KafkaProducer(bootstrap_servers=platform.settings.kafka.bootstrap, acks="all", linger_ms=5)
    for number, text in enumerate(texts):
        producer.send(topic, text.encode(), partition=number % 2)
    producer.close()


def logs_of(platform: Platform, topic: str) -> list[PartitionLog]:
    return list(eras.logs(engine(platform.settings), topic).values())


def at_rest(platform: Platform, topic: str) -> Hops:
    """The hops once both layers have everything that Kafka has."""

    def look() -> Hops | None:
        hops = audit(platform.settings, topic, hive=False)
        moving = [each for each in hops.in_flight if "nightly_batch" not in each and "front-ends" not in each]
        return None if moving else hops

    return until(look, DRAIN_SECONDS, "both layers have all", 0.5)


def lose_tail(platform: Platform, topic: str, partition: int = 0) -> dict[int, int]:
    """kill -9 Kafka, cut bytes off the end of a partition, and wait until it is back; returns the ends."""
    platform.kill_daemon("kafka")
    folder = Path(platform.settings.home) / "data" / "kafka" / f"{topic}-{partition}"
    segment = max(folder.glob("*.log"))
    os.truncate(segment, segment.stat().st_size - random.Random(topic).randint(BYTES // 3, BYTES))  # noqa: S311
    return back(platform, topic)


def back(platform: Platform, topic: str) -> dict[int, int]:
    """Wait until Kafka is back; returns where the topic ends."""

    def look() -> dict[int, int]:
        try:
            health.kafka(platform.settings)
            return kafka_ends(platform.settings, topic)
        except Exception:  # it is coming back
            return {}

    return until(look, what="Kafka is back")


def compute_night(platform: Platform, topic: str, day: dt.date) -> None:
    night = [sys.executable, str(platform.settings.root / "jobs" / "nightly.py"), "--topic", topic]
    subprocess.run(
        [*night, "--day", day.isoformat(), "--run-id", f"tail-{day}"],
        env=environment(platform.settings), check=True, timeout=COMMAND_SECONDS,
    )  # fmt: skip


@contextmanager
def stopped_kafka(platform: Platform, topic: str) -> Iterator[Path]:
    """Kafka is stopped in order, and started again afterwards; yields its volume."""
    supervisord.stop_program(platform.settings, "kafka")
    try:
        yield Path(platform.settings.home) / "data" / "kafka"
    finally:
        supervisord.start_program(platform.settings, "kafka")
    back(platform, topic)


@contextmanager
def standing_still(platform: Platform, job: str) -> Iterator[None]:
    """The job's process stands still, as on a machine that has much else to do."""
    process = platform.job(job).pid
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_lines_that_came_to_the_offsets_of_lost_ones_all_count_and_none_twice(platform: Platform) -> None:
    topic = f"tail_{secrets.token_hex(4)}"
    with Topics(platform.settings) as topics:
        topics.create(topic, partitions=2)
    done = platform.sluice("tasks", "apply", "-f", "-", text=TASK.format(topic=topic))
    assert done.returncode == 0, done.stderr
    send(platform, topic, lines(0, BEFORE))
    before = at_rest(platform, topic)
    assert (before.online, before.archived) == (BEFORE, BEFORE)
    ends = lose_tail(platform, topic)
    assert ends[0] < BEFORE // 2 == ends[1]
    send(platform, topic, lines(BEFORE, AFTER))
    until(lambda: 1 in {len(log.eras) - 1 for log in eras.logs(engine(platform.settings), topic).values()})
    hops = at_rest(platform, topic)
    assert (hops.online, hops.archived, hops.kafka) == (BEFORE + AFTER,) * 3, hops
    found = {each.partition: each for each in verify(platform.settings, topic)}
    assert [each.problems for each in found.values()] == [(), ()]
    compute_night(platform, topic, DAY)
    wanted = Counter({(f"/{n}",): 1 for n in range(BEFORE + AFTER)})
    for layer in ("online", "offline"):
        values = platform.counted(f"{topic}_hits", DAY, layer).values
        assert Counter({series[1]: metrics["count"] for series, metrics in values.items()}) == wanted
    assert not hops.disagreements


@pytest.mark.long
def test_lines_that_came_to_the_offsets_of_those_that_an_older_volume_lacks_all_count(
    platform: Platform, tmp_path: Path
) -> None:
    """The copy's Kafka gives the same epoch a second time, and its log grows beyond what was read."""
    topic, database = f"volume_{secrets.token_hex(4)}", engine(platform.settings)
    with Topics(platform.settings) as topics:
        topics.create(topic, partitions=2)
    done = platform.sluice("tasks", "apply", "-f", "-", text=TASK.format(topic=topic))
    assert done.returncode == 0, done.stderr
    send(platform, topic, lines(0, COPIED))
    at_rest(platform, topic)
    with stopped_kafka(platform, topic) as volume:
        shutil.copytree(volume, tmp_path / "copy")
    send(platform, topic, lines(COPIED, BEFORE))
    before = at_rest(platform, topic)
    assert (before.online, before.archived) == (COPIED + BEFORE,) * 2
    known = {log.newest.epoch for log in logs_of(platform, topic)}
    with standing_still(platform, "speed_layer"), standing_still(platform, "archiver"):
        with stopped_kafka(platform, topic) as volume:
            volume.rename(tmp_path / "newer")
            shutil.copytree(tmp_path / "copy", volume)
        with Topics(platform.settings) as topics:
            assert {end.epoch for end in topics.log_ends(topic, (0, 1)).values()} == known
        send(platform, topic, lines(COPIED + BEFORE, BEFORE + AFTER))  # more than were lost
    until(lambda: {len(log.eras) for log in logs_of(platform, topic)} == {2}, what="the loss is found")
    hops = at_rest(platform, topic)
    number = COPIED + BEFORE + BEFORE + AFTER
    assert (hops.online, hops.archived, hops.kafka) == (number,) * 3, hops
    assert not hops.disagreements
    for partition, said in enumerate(sorted(lost(platform, topic))):
        place = f"{topic}/{partition} from offset {COPIED // 2} on, of which {BEFORE // 2} had been read"
        assert said.startswith(f"Kafka lost the records of {place}")
    assert [each.problems for each in verify(platform.settings, topic)] == [(), ()]
    compute_night(platform, topic, DAY)
    wanted = Counter({(f"/{n}",): 1 for n in range(number)})
    for layer in ("online", "offline"):
        values = platform.counted(f"{topic}_hits", DAY, layer).values
        assert Counter({series[1]: metrics["count"] for series, metrics in values.items()}) == wanted
    computed = Days(database, topic).get(DAY)
    assert computed is not None
    assert reconcile(platform.settings, topic, DAY, computed.cut).outcome == ComparisonOutcome.AGREES
    until(lambda: not open_losses.open_losses(database), DRAIN_SECONDS, "all losses are settled", 0.5)


def lost(platform: Platform, topic: str) -> list[str]:
    """What the alerts about the topic say."""
    names = f"lost {topic}/"
    return [
        each.message for each in alerts.open_alerts(engine(platform.settings)) if each.name.startswith(names)
    ]


def test_front_ends_send_again_what_was_counted_and_not_archived(platform: Platform) -> None:
    """The lines come through an edge and a collector, so they have an identity, and their file is there."""
    database = engine(platform.settings)
    platform.drain()
    before = kafka_ends(platform.settings, TOPIC)
    number = len(platform.written.get(SENT_AGAIN, []))
    known = {at: len(log.eras) for at, log in eras.logs(database, TOPIC).items()}

    def counted() -> dict[int, int]:
        """Where Kafka ends, once the speed layer has counted all lines."""
        ends, logs = kafka_ends(platform.settings, TOPIC), eras.logs(database, TOPIC)
        done = open_losses.committed(database, TOPIC)
        behind = [at for at, end in ends.items() if logs[at].records(done.get(at, 0), logs[at].position(end))]
        return ends if ends != before and not behind and deploy.drained(platform.settings) else {}

    with standing_still(platform, "archiver"):
        platform.write(SENT_AGAIN, access_lines(SENT_AGAIN, BEFORE, seed=number))
        after = until(counted, what="the speed layer has counted all")
        partition = max(after, key=lambda at: after[at] - before[at])
        ends = lose_tail(platform, TOPIC, partition)
        assert ends[partition] < after[partition]
    found = known[partition] + 1
    until(lambda: len(eras.logs(database, TOPIC)[partition].eras) == found, what="the loss is found")
    until(lambda: not open_losses.open_losses(database), DRAIN_SECONDS, "the loss is settled", 0.5)
    hops = platform.drain()
    assert (hops.lost, hops.disagreements) == (0, ())
    assert not [each for each in alerts.open_alerts(database) if each.name.startswith(f"lost {TOPIC}")]
    assert platform.sluice("resend", "--dry-run").stdout == "nothing is missing\n"
    compute_night(platform, TOPIC, SENT_AGAIN)
    for task, wanted in expected(platform.written[SENT_AGAIN]).items():
        for layer in ("online", "offline"):
            assert platform.counted(task, SENT_AGAIN, layer).values == wanted, (task, layer)

"""Kafka lost the ends of its segments: it starts, and each partition has a beginning of what it was given."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from sluice.stack.daemons.kafka_checkpoints import ASIDE
from sluice.transmission.log_ends import ends_of_epochs, log_ends
from sluice.transmission.topics import Topics
from tests.cuts.damage import damage, dice
from tests.cuts.stores import OwnDaemons, own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

TOPIC, BATCHES, LINES = "logs", 60, 20
#: A partition for each: the segment's end cut off or zeros, its index whole, gone, or zeros.
WAYS = [(zeros, index) for zeros in (False, True) for index in ("whole", "gone", "zeros")]
INDEXES = (".index", ".timeindex")


def send(own: OwnDaemons, folders: list[Path]) -> list[list[tuple[int, int]]]:
    """By partition: how long its segment was once so many lines had been acknowledged."""
    lengths: list[list[tuple[int, int]]] = [[] for _ in folders]
    producer = KafkaProducer(bootstrap_servers=own.settings.kafka.bootstrap, acks="all", linger_ms=50)
    for batch in range(BATCHES):
        sent = [
            producer.send(TOPIC, b"%07d" % (batch * LINES + line) + bytes(90), partition=number)
            for number in range(len(folders))
            for line in range(LINES)
        ]
        producer.flush()
        for each in sent:
            each.get(60)
        for number, folder in enumerate(folders):
            lengths[number].append(((batch + 1) * LINES, max(folder.glob("*.log")).stat().st_size))
    producer.close()
    return lengths


def lines(own: OwnDaemons, partition: int) -> list[int]:
    consumer = KafkaConsumer(bootstrap_servers=own.settings.kafka.bootstrap)
    at = TopicPartition(TOPIC, partition)
    consumer.assign([at])
    consumer.seek(at, 0)
    end, found = consumer.end_offsets([at])[at], []
    while consumer.position(at) < end:
        found += [int(record.value[:7]) for record in consumer.poll(500).get(at, [])]
    consumer.close()
    return found


def test_what_was_acknowledged_before_the_cut_is_there_and_nothing_else(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "kafka") as own:
        with Topics(own.settings) as topics:
            topics.create(TOPIC, partitions=len(WAYS))
        folders = [own.home / "data" / "kafka" / f"{TOPIC}-{number}" for number in range(len(WAYS))]
        lengths = send(own, folders)
        own.kill()
        kept = []
        for folder, (zeros, index) in zip(folders, WAYS, strict=True):
            segment = max(folder.glob("*.log"))
            kept.append(damage(segment, drawn, zeros=zeros).kept)
            for path in (segment.with_suffix(each) for each in INDEXES):
                if index == "gone":
                    path.unlink()
                elif index == "zeros":
                    path.write_bytes(bytes(path.stat().st_size))
        own.start()
        for number, length in enumerate(kept):
            found = lines(own, number)
            sure = max([count for count, size in lengths[number] if size <= length], default=0)
            assert found == list(range(len(found))), WAYS[number]
            assert sure <= len(found) < BATCHES * LINES, WAYS[number]


def known_epochs(own: OwnDaemons) -> dict[int, int]:
    """Where the log of partition 0 ended for each epoch of its leader."""
    admin = KafkaAdminClient(bootstrap_servers=own.settings.kafka.bootstrap)
    with closing(admin):
        newest = log_ends(admin, TOPIC, [0], 10_000)[0].epoch
        return {epoch: ends_of_epochs(admin, TOPIC, {0: epoch})[0] for epoch in range(newest + 1)}


@pytest.mark.parametrize("zeros", [True, False])
def test_torn_checkpoints_do_not_keep_it_from_starting_and_each_epoch_ends_where_it_did(
    tmp_path: Path, zeros: bool
) -> None:
    with own_daemons(tmp_path, "kafka") as own:
        with Topics(own.settings) as topics:
            topics.create(TOPIC, partitions=1)
        data = own.home / "data" / "kafka"
        send(own, [data / f"{TOPIC}-0"])
        for _ in range(2):
            own.kill()
            own.start()
            send(own, [data / f"{TOPIC}-0"])
        before = known_epochs(own)
        assert len(set(before.values())) == 3
        own.kill()
        torn = [
            path for path in [*data.glob("*-checkpoint"), *data.glob("*/*-checkpoint")] if path.stat().st_size
        ]
        assert {path.name for path in torn} >= {"leader-epoch-checkpoint", "replication-offset-checkpoint"}
        for path in torn:
            path.write_bytes(bytes(path.stat().st_size) if zeros else b"")
        own.start()
        after = known_epochs(own)
        assert {epoch: after[epoch] for epoch in before} == before
        assert len(lines(own, 0)) == 3 * BATCHES * LINES
        aside = {path.name for path in data.glob(f"{ASIDE}*")}
        assert (f"lost-{TOPIC}-0-leader-epoch-checkpoint" in aside) == zeros
        own.kill()
        own.start()
        assert not own.said("kafka").count(f"{TOPIC}-0/leader-epoch-checkpoint is not whole") > 1

"""Kafka lost the ends of its segments: it starts, and each partition has a beginning of what it was given."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from sluice.stack.daemons.kafka_checkpoints import ASIDE
from sluice.transmission.log_ends import ends_of_epochs, log_ends
from tests.cuts.contents import BATCHES, LINES, TOPIC, KafkaContent
from tests.cuts.damage import dice
from tests.cuts.stores import OwnDaemons, own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

#: A partition for each: the segment's end cut off or zeros, its index whole, gone, or zeros.
WAYS = [(zeros, index) for zeros in (False, True) for index in ("whole", "gone", "zeros")]
INDEXES = (".index", ".timeindex")


def test_what_was_acknowledged_before_the_cut_is_there_and_nothing_else(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "kafka") as own:
        content = KafkaContent(own, partitions=len(WAYS))
        content.give()
        own.kill()
        for number, (zeros, index) in enumerate(WAYS):
            content.cut_partition(number, drawn, zeros=zeros)
            for path in (content.segment(number).with_suffix(each) for each in INDEXES):
                if index == "gone":
                    path.unlink()
                elif index == "zeros":
                    path.write_bytes(bytes(path.stat().st_size))
        own.start()
        content.check()


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
        content, data = KafkaContent(own), own.home / "data" / "kafka"
        content.give()
        for _ in range(2):
            own.kill()
            own.start()
            content.give()
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
        assert len(content.lines(0)) == 3 * BATCHES * LINES
        aside = {path.name for path in data.glob(f"{ASIDE}*")}
        assert (f"lost-{TOPIC}-0-leader-epoch-checkpoint" in aside) == zeros
        own.kill()
        own.start()
        assert not own.said("kafka").count(f"{TOPIC}-0/leader-epoch-checkpoint is not whole") > 1

"""Tells whether Kafka's volume is the one that ran last, or an older copy in its place.

Each start of Kafka puts a new mark into its volume, and the volume's marks into a file of the instance, too.
If the volume lacks the newest mark of that file, another one ran last. Kafka will then give epochs of its
leaders, and offsets, a second time. So eras begin (`eras.volume_changed`) before it starts. With each mark
stands the epoch that each partition had reached: those of the last common mark are what both volumes share,
even if the newer one is put back.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice.stack.daemons.kafka_checkpoints import EPOCH_ENTRY, EPOCHS, entries
from sluice.stack.log import DaemonLog

#: In the volume, where Kafka takes no notice of it.
IN_VOLUME = "sluice_starts.json"
#: In the instance's directory: the marks of the volume that ran last.
RAN_LAST = "kafka_starts.json"
#: How many starts a volume knows.
KEPT = 100
_PARTITION = re.compile(r"(?!__).+-\d+")


@dataclass(frozen=True)
class KafkaStart:
    """A start of Kafka. epochs: the newest of each of its volume's partitions (TOPIC-NUMBER) before it."""

    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    epochs: Mapping[str, int] = field(default_factory=dict)


def mark_volume(settings: Settings) -> None:
    """Begin eras if the volume is not the one that ran last, and put a new mark into it. Kafka must not run.

    In the first case it waits for PostgreSQL. If it is cut short, the next start does it again.
    """
    volume = settings.home / "data" / "kafka"
    own, ran_last = read_starts(volume / IN_VOLUME), read_starts(settings.home / RAN_LAST)
    epochs = epochs_in(volume)
    if (common := shared_epochs(own, ran_last, epochs)) is not None:
        log = DaemonLog("kafka")
        log(f"{volume} is not the volume that ran last: waiting for PostgreSQL, to note it")
        number = _begin_eras(settings, common)
        log(f"eras of {number} partitions began: what was read and is not in the volume is lost")
    text = json.dumps([asdict(each) for each in [*own, KafkaStart(epochs=epochs)][-KEPT:]])
    # In this order: a volume with one mark more than the instance knows is the one that ran last.
    write_whole(volume / IN_VOLUME, text)
    write_whole(settings.home / RAN_LAST, text)


def shared_epochs(
    own: Sequence[KafkaStart], ran_last: Sequence[KafkaStart], epochs: Mapping[str, int]
) -> dict[str, int] | None:
    """The newest epoch of each partition that a volume shares with the one that ran last.

    None if it is that one, as far as is known. own, ran_last: the starts that each knows. epochs: the
    volume's, of now.
    """
    marks, known = [each.mark for each in own], [each.mark for each in ran_last]
    if not known or known[-1] in marks:
        return None
    both = [mark for mark in marks if mark in known]
    if not both:  # older than all marks, or than those that are known
        return dict(epochs)
    # What the one and the other were when they parted.
    mine, other = own[marks.index(both[-1]) + 1 :], ran_last[known.index(both[-1]) + 1]
    parted = mine[0].epochs if mine else epochs
    return {name: min(epoch, other.epochs.get(name, epoch)) for name, epoch in parted.items()}


def read_starts(path: Path) -> list[KafkaStart]:
    """The starts in a file, oldest first: none if it is not there, an unknown one if it is damaged."""
    try:
        return [KafkaStart(**each) for each in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError):
        return [KafkaStart()]


def epochs_in(volume: Path) -> dict[str, int]:
    """The newest epoch of the leader of each partition in a volume.

    A partition without one never had a leader. Of what Kafka cannot read it will say so itself.
    """
    found = {}
    for path in volume.glob(f"*/{EPOCHS}"):
        epochs = [int(each.split(" ")[0]) for each in entries(path, EPOCH_ENTRY) or ()]
        if _PARTITION.fullmatch(path.parent.name) and epochs:
            found[path.parent.name] = max(epochs)
    return found


def _begin_eras(settings: Settings, common: Mapping[str, int]) -> int:
    from sluice.storage import postgres  # here, because it is seldom needed and slow to import
    from sluice.storage.tables import eras

    return postgres.patiently(lambda: eras.volume_changed(postgres.engine(settings), common), math.inf)

"""A volume of Kafka's is known by its marks, and what two volumes share by the epochs beside them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.daemons import kafka_volume
from sluice.stack.daemons.kafka_volume import (
    IN_VOLUME,
    RAN_LAST,
    KafkaStart,
    epochs_in,
    mark_volume,
    read_starts,
    shared_epochs,
)


def led(volume: Path, epochs: Mapping[str, int]) -> None:
    """Partitions as Kafka 4.3 leaves them: each was led at epoch 0, and from offset 905 on at this one."""
    for name, epoch in epochs.items():
        folder = volume / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n{epoch} 905\n")


class Begun:
    """PostgreSQL's side: what was shared, each time that eras began."""

    def __init__(self) -> None:
        self.shared: list[dict[str, int]] = []
        self.dies = False

    def __call__(self, _: Settings, common: dict[str, int]) -> int:
        self.shared.append(common)
        if self.dies:
            raise KilledHere
        return len(common)


class KilledHere(BaseException):
    """The process dies here."""


class Instance:
    """An instance's directory, whose Kafka does nothing but to lead at another epoch with each start."""

    def __init__(self, home: Path) -> None:
        self.settings, self.volume = Settings(instance="test", home=home), home / "data" / "kafka"
        self.copies = home / "copies"
        led(self.volume, {"logs-0": 0})

    def start(self) -> None:
        mark_volume(self.settings)
        led(self.volume, {"logs-0": epochs_in(self.volume)["logs-0"] + 2})

    def copy(self, name: str) -> None:
        shutil.copytree(self.volume, self.copies / name)

    def put_back(self, name: str) -> None:
        shutil.rmtree(self.volume)
        shutil.copytree(self.copies / name, self.volume)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    made = Begun()
    monkeypatch.setattr(kafka_volume, "_begin_eras", made)
    return made


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return Instance(tmp_path)


def test_the_volume_that_ran_last_needs_no_database(instance: Instance, begun: Begun) -> None:
    for _ in range(3):
        instance.start()
    assert begun.shared == []
    starts = read_starts(instance.volume / IN_VOLUME)
    assert [each.epochs for each in starts] == [{"logs-0": epoch} for epoch in (0, 2, 4)]
    assert starts == read_starts(instance.settings.home / RAN_LAST)
    assert len({each.mark for each in starts}) == 3


def test_a_copy_of_the_volume_that_ran_last_is_that_volume(instance: Instance, begun: Begun) -> None:
    """Such as one that was moved to another disk."""
    instance.start()
    instance.copy("now")
    instance.put_back("now")
    instance.start()
    assert begun.shared == []


@pytest.mark.parametrize("since", [1, 2, 6])
def test_an_older_copy_shares_all_that_it_has(
    instance: Instance, begun: Begun, since: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_volume, "KEPT", 4)
    instance.start()
    instance.copy("old")
    for _ in range(since):
        instance.start()
    instance.put_back("old")
    instance.start()
    assert begun.shared == [{"logs-0": 2}]
    instance.start()
    assert len(begun.shared) == 1
    assert len(read_starts(instance.settings.home / RAN_LAST)) <= 4


def test_a_newer_volume_that_is_put_back_shares_what_both_had_when_they_parted(
    instance: Instance, begun: Begun
) -> None:
    instance.start()
    instance.copy("old")
    for _ in range(3):
        instance.start()
    instance.copy("newer")
    instance.put_back("old")
    instance.start()
    instance.start()
    instance.put_back("newer")
    instance.start()
    assert begun.shared == [{"logs-0": 2}, {"logs-0": 2}]


def test_an_instance_from_before_there_were_marks_goes_on(instance: Instance, begun: Begun) -> None:
    instance.copy("before")
    instance.start()
    assert begun.shared == []
    instance.put_back("before")  # a copy from then is an older volume
    instance.start()
    assert begun.shared == [{"logs-0": 0}]


def test_a_new_volume_shares_nothing(instance: Instance, begun: Begun) -> None:
    instance.start()
    shutil.rmtree(instance.volume)
    instance.volume.mkdir()
    mark_volume(instance.settings)
    assert begun.shared == [{}]


def test_a_start_that_is_cut_short_is_no_other_volume_and_loses_none(
    instance: Instance, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.start()
    whole = kafka_volume.write_whole

    def cut_short(*, after: int) -> None:
        written: list[Path] = []

        def write(path: Path, text: str) -> None:
            if len(written) == after:
                raise KilledHere
            written.append(path)
            whole(path, text)

        monkeypatch.setattr(kafka_volume, "write_whole", write)
        with pytest.raises(KilledHere):
            mark_volume(instance.settings)
        monkeypatch.setattr(kafka_volume, "write_whole", whole)

    instance.copy("old")
    for after in (0, 1):
        cut_short(after=after)
        instance.start()
    assert begun.shared == []
    instance.put_back("old")
    begun.dies = True
    with pytest.raises(KilledHere):
        mark_volume(instance.settings)
    begun.dies = False
    for after in (0, 1):
        cut_short(after=after)
    instance.start()
    assert begun.shared == [{"logs-0": 2}] * 4


@pytest.mark.parametrize("which", [RAN_LAST, f"data/kafka/{IN_VOLUME}"])
@pytest.mark.parametrize("left", ["", "[", '[{"mark": "a"', '["a"]', "[1]", "\0\0"])
def test_a_damaged_file_of_marks_costs_nothing_but_a_look_at_the_database(
    instance: Instance, begun: Begun, which: str, left: str
) -> None:
    instance.start()
    instance.start()
    (instance.settings.home / which).write_text(left)
    instance.start()
    assert begun.shared == [{"logs-0": 4}]
    assert len(read_starts(instance.settings.home / which)[-1].mark) == 16
    instance.start()
    assert len(begun.shared) == 1


def starts(*each: tuple[str, int]) -> Sequence[KafkaStart]:
    return [KafkaStart(mark, {"logs-0": epoch}) for mark, epoch in each]


def test_the_older_epoch_of_both_is_shared() -> None:
    """A copy of a Kafka that ran may lack epochs of the start at which it was made."""
    own, ran_last = starts(("a", 0)), starts(("a", 0), ("b", 6))
    assert shared_epochs(own, ran_last, {"logs-0": 2}) == {"logs-0": 2}
    assert shared_epochs(own, ran_last, {"logs-0": 8, "new-0": 8}) == {"logs-0": 6, "new-0": 8}


def test_epochs_of_a_volume(tmp_path: Path) -> None:
    led(tmp_path, {"logs-0": 2, "a-b-11": 7, "__consumer_offsets-0": 9, "gone-0.0123abcd-delete": 4})
    (tmp_path / "new-0").mkdir()
    (tmp_path / "new-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    (tmp_path / "torn-0").mkdir()
    (tmp_path / "torn-0" / "leader-epoch-checkpoint").write_bytes(bytes(8))
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    assert epochs_in(tmp_path) == {"logs-0": 2, "a-b-11": 7}

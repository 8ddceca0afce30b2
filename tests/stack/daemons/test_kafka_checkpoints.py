"""Torn checkpoints of Kafka's are set aside, and where each leader's records begin is read from the log."""

from __future__ import annotations

import re
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import Settings
from sluice.stack.daemons.kafka_checkpoints import entries, epochs, mend

EPOCHS, POINTS = "leader-epoch-checkpoint", "recovery-point-offset-checkpoint"
OFFSET, EPOCH = re.compile(r"\S+ \d+ \d+"), re.compile(r"\d+ \d+")


def batch(offset: int, epoch: int, size: int = 80) -> bytes:
    return pack(">qiib", offset, size, epoch, 2) + bytes(size + 12 - 17)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log of two files, and Kafka's checkpoints."""
    made = tmp_path / "data" / "kafka"
    folder = made / "logs-0"
    folder.mkdir(parents=True)
    first = batch(0, 3) + batch(5, 3, 200) + batch(7, 5)
    (folder / "00000000000000000000.log").write_bytes(first)
    (folder / "00000000000000000009.log").write_bytes(batch(9, 5) + batch(11, 8) + bytes(300))
    (folder / EPOCHS).write_text("0\n3\n3 0\n5 7\n8 11\n")
    (made / POINTS).write_text("0\n2\nlogs 0 12\n__consumer_offsets 7 0\n")
    (made / "cleaner-offset-checkpoint").write_text("0\n0\n")
    (made / "meta.properties").write_bytes(bytes(20))
    return made


def run(data: Path) -> None:
    mend(Settings(instance="test", home=data.parent.parent))


def contents(data: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_what_is_whole_stays_and_so_does_what_nothing_makes_again(data: Path) -> None:
    before = contents(data)
    run(data)
    assert contents(data) == before


@pytest.mark.parametrize("name", [POINTS, "cleaner-offset-checkpoint"])
def test_one_full_of_zeros_is_set_aside(data: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    size = (data / name).stat().st_size
    (data / name).write_bytes(bytes(size))
    run(data)
    assert not (data / name).exists()
    assert (data / f"lost-{name}").read_bytes() == bytes(size)
    assert f"{name} is not whole" in capsys.readouterr().out


def test_epochs_are_made_again_of_the_log(data: Path) -> None:
    path = data / "logs-0" / EPOCHS
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)))
    run(data)
    assert path.read_bytes() == whole
    assert (data / f"lost-logs-0-{EPOCHS}").read_bytes() == bytes(len(whole))
    for gone in (lambda: path.write_bytes(b""), path.unlink):  # Kafka would begin without epochs
        gone()
        run(data)
        assert path.read_bytes() == whole


def test_a_log_without_a_record_has_no_epoch(data: Path) -> None:
    folder = data / "logs-1"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(bytes(40))
    (folder / EPOCHS).write_bytes(bytes(8))
    run(data)
    assert not (folder / EPOCHS).exists()
    assert list(epochs(folder)) == []


def test_a_new_instance_has_nothing_to_mend(tmp_path: Path) -> None:
    mend(Settings(instance="test", home=tmp_path))
    assert list(tmp_path.rglob("*")) == []


@given(st.data())
def test_a_torn_end_is_never_taken_for_whole(
    tmp_path_factory: pytest.TempPathFactory, drawn: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / POINTS
    found = drawn.draw(
        st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.integers(0, 99), st.integers(0, 10**6)))
    )
    own = [f"{topic} {partition} {offset}" for topic, partition, offset in found]
    whole = "".join(f"{line}\n" for line in ("0", len(own), *own)).encode()
    path.write_bytes(whole)
    assert entries(path, OFFSET) == own
    kept = drawn.draw(st.integers(1, len(whole) - 1))
    for rest in (b"", bytes(len(whole) - kept)):
        path.write_bytes(whole[:kept] + rest)
        assert entries(path, OFFSET) is None


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3), st.integers(60, 300)), max_size=20), st.data()
)
def test_epochs_are_those_of_whole_batches(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int, int]], more: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    offset = epoch = 0
    wanted: dict[int, int] = {}
    text = b""
    cut = more.draw(st.integers(0, sum(size + 12 for *_, size in drawn)))
    for records, later, size in drawn:
        epoch += later
        text += batch(offset, epoch, size)
        if len(text) <= cut:
            wanted.setdefault(epoch, offset)
        offset += records
    (folder / "00000000000000000000.log").write_bytes(text[:cut] + bytes(more.draw(st.integers(0, 99))))
    found = list(epochs(folder))
    # One that only a torn batch has is taken out by Kafka when it cuts that off.
    assert found[: len(wanted)] == [f"{number} {first}" for number, first in wanted.items()]
    assert len(found) <= len(wanted) + 1

"""What ZooKeeper does not need goes, and what a full disk left does not keep it from starting."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.middle_damage import MiddleDamage
from sluice.runtime.settings import Settings
from sluice.stack.daemons import zookeeper_files
from tests.cuts.damage import dice
from tests.examples import examples

#: A snapshot that was written whole: at its end are the checksum of all before it, and a slash.
WHOLE = b"a snapshot" + zlib.adler32(b"a snapshot").to_bytes(8, "big") + b"\x00\x00\x00\x01/"
HEADER = b"ZKLG\x00\x00\x00\x02" + bytes(8)


def entry(transaction: int, body: bytes = b"a body") -> bytes:
    """A transaction in a journal, as ZooKeeper writes it."""
    text = dice(transaction).randbytes(8) + b"\x00\x00\x00\x05" + transaction.to_bytes(8, "big")
    text += (1_795_900_000_000).to_bytes(8, "big") + b"\x00\x00\x00\x01" + body
    return zlib.adler32(text).to_bytes(8, "big") + len(text).to_bytes(4, "big") + text + b"B"


def test_the_newest_snapshots_stay_with_the_journals_that_they_need(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    names = ["snapshot.0", "log.1", "snapshot.100", "log.101", "snapshot.9ff", "log.a00", "snapshot.1a00"]
    for name in (*names, "log.1a01", "snapshot.2b00", "log.2b01", "acceptedEpoch"):
        (folder / name).write_bytes(WHOLE)
    settings = Settings(instance="test", home=tmp_path)
    assert zookeeper_files.purge(settings) == 3
    left = {path.name for path in folder.iterdir()}
    # log.101 goes on until log.a00, so it has what came while snapshot.9ff was written.
    assert left == {
        "snapshot.9ff", "snapshot.1a00", "snapshot.2b00", "log.101", "log.a00", "log.1a01", "log.2b01",
        "acceptedEpoch",
    }  # fmt: skip
    assert zookeeper_files.purge(settings) == 0
    for name, torn in (("snapshot.2c00", WHOLE[:-1]), ("snapshot.2d00", WHOLE.replace(b"shot", bytes(4)))):
        (folder / name).write_bytes(torn)  # a full disk or a power cut left them: they replace none
    assert zookeeper_files.purge(settings) == 0


def test_without_a_zookeeper_there_is_nothing_to_purge(tmp_path: Path) -> None:
    assert zookeeper_files.purge(Settings(instance="test", home=tmp_path)) == 0


@pytest.mark.parametrize("torn", [b"", WHOLE[:-7], bytes(len(WHOLE)), None])
def test_without_a_whole_snapshot_all_is_set_aside(
    tmp_path: Path, torn: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    settings = Settings(instance="test", home=tmp_path)
    zookeeper_files.set_aside_without_snapshot(settings)
    assert list(folder.iterdir()) == []
    files = {"snapshot.0": WHOLE, "log.1": HEADER + entry(1), "log.2a": HEADER + entry(0x2A)}
    if torn is not None:
        files["snapshot.29"] = torn
    for name, data in files.items():
        (folder / name).write_bytes(data)
    zookeeper_files.set_aside_without_snapshot(settings)  # the older one is whole
    assert {path.name for path in folder.iterdir()} == set(files)
    files["snapshot.0"] = WHOLE[1:]
    (folder / "snapshot.0").write_bytes(files["snapshot.0"])
    for _ in range(2):
        zookeeper_files.set_aside_without_snapshot(settings)
    assert [path.name for path in folder.iterdir()] == [zookeeper_files.ASIDE]
    assert {path.name: path.read_bytes() for path in (folder / zookeeper_files.ASIDE).iterdir()} == files
    assert f"its {len(files) - 2} snapshots and 2 journals are set aside" in capsys.readouterr().out


@pytest.mark.parametrize("left", [b"", b"ZKLG\x00\x00\x00\x02\x00", bytes(65552)])
def test_only_a_journal_without_its_beginning_is_set_aside(
    tmp_path: Path, left: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    settings = Settings(instance="test", home=tmp_path)
    zookeeper_files.set_aside_headless(settings)
    (folder / "log.9").write_bytes(left)
    (folder / "log.a0").write_bytes(b"ZKLG\x00\x00\x00\x02" + bytes(65544))
    zookeeper_files.set_aside_headless(settings)
    (folder / "log.b01").write_bytes(left)
    for _ in range(2):
        zookeeper_files.set_aside_headless(settings)
    assert {path.name for path in folder.iterdir()} == {"log.9", "log.a0", zookeeper_files.ASIDE}
    assert (folder / zookeeper_files.ASIDE / "log.b01").read_bytes() == left
    assert "before anything in it was answered" in capsys.readouterr().out


@examples(60)
@given(bit=st.integers(0, 8 * len(HEADER) - 1), number=st.integers(0, 20), lost=st.booleans())
def test_a_wrong_beginning_before_whole_entries_is_damage(
    tmp_path_factory: pytest.TempPathFactory, bit: int, number: int, lost: bool
) -> None:
    home = tmp_path_factory.mktemp("home")
    folder = home / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    head = bytearray(HEADER)
    head[bit // 8] ^= 1 << bit % 8
    begin = bytes(16) if lost else bytes(head)
    data = begin + b"".join(entry(0xB01 + each, bytes(each)) for each in range(number)) + bytes(65_536)
    (folder / "log.b01").write_bytes(data)
    settings = Settings(instance="test", home=home)
    if begin.startswith(b"ZKLG"):  # its other numbers are ZooKeeper's matter
        zookeeper_files.set_aside_headless(settings)
    elif number:
        with pytest.raises(MiddleDamage, match=r"log\.b01 is damaged at byte 0, and from byte 16 on"):
            zookeeper_files.set_aside_headless(settings)
    else:
        zookeeper_files.set_aside_headless(settings)
        assert not (folder / "log.b01").exists()
        return
    assert (folder / "log.b01").read_bytes() == data


@examples(60)
@given(begin=st.integers(0, 60), kept=st.integers(0))
def test_a_lost_beginning_before_half_an_entry_is_torn(
    tmp_path_factory: pytest.TempPathFactory, begin: int, kept: int
) -> None:
    home, whole = tmp_path_factory.mktemp("home"), entry(0xB01, b"a body" * 50)
    folder = home / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    folder.mkdir(parents=True)
    (folder / "log.b01").write_bytes(bytes(16 + begin) + whole[: kept % len(whole)] + bytes(65_536))
    zookeeper_files.set_aside_headless(Settings(instance="test", home=home))
    assert (folder / zookeeper_files.ASIDE / "log.b01").exists()


@pytest.mark.parametrize("fill", [b"\0", b"\0\0\0\0\x01\x01\x01\x01", entry(0xB01)[:-1]])
def test_a_large_journal_is_looked_through_in_time_that_grows_with_it(fill: bytes) -> None:
    data, begin = fill * ((8 << 20) // len(fill)) + b"\x01", time.process_time()
    assert zookeeper_files._first_whole(data, 0xB01) is None
    assert time.process_time() - begin < 10

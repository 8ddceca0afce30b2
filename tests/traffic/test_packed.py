"""A packed log is read as a stream within bounds; what is no log is refused by name, with the remedy."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sluice.collection.pattern import Pattern
from sluice.runtime.sections import Limits
from sluice.runtime.settings import Settings
from sluice.traffic.packed import AT_LEAST, ReplayError, blocks
from sluice.traffic.replay import Server, read_lines, replay
from tests.examples import examples

PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
LINE = b'10.0.0.1 - - [17/May/2015:10:00:00 +0000] "GET /a HTTP/1.1" 200 1'

formats = pytest.mark.parametrize("suffix", PACKED)


def made(folder: Path, data: bytes, name: str = "some.log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def server(settings: Settings, folder: Path, reserve: int = 0) -> Server:
    return Server(Pattern.parse(f"{folder}/elsewhere/access.%Y-%m-%d.log", settings.home), reserve)


@pytest.mark.slow
@formats
def test_a_packed_log_is_read_by_its_first_bytes_whatever_its_name(tmp_path: Path, suffix: str) -> None:
    lines = [LINE + b"%d" % n for n in range(30_000)]
    text = b"\n".join(lines)
    halves = PACKED[suffix](text[:1_000_000]) + PACKED[suffix](
        text[1_000_000:]
    )  # as `cat a.gz b.gz` makes it
    for data in (PACKED[suffix](text), halves):
        assert list(read_lines(made(tmp_path, data))) == lines


@pytest.mark.slow
@formats
def test_what_unpacks_to_more_than_the_bound_ends_there_and_the_setting_raises_it(
    tmp_path: Path, suffix: str
) -> None:
    bomb = made(tmp_path, PACKED[suffix](bytes(AT_LEAST) + b"\n" * (8 << 20)))
    with pytest.raises(ReplayError, match=r"unpack to over .*SLUICE_LIMITS__UNPACKED_LOG_BYTES"):
        sum(map(len, blocks(bomb)))
    assert sum(map(len, blocks(bomb, 128 << 20))) == AT_LEAST + (8 << 20)


@pytest.mark.slow
@formats
def test_a_line_without_an_end_takes_no_memory(tmp_path: Path, suffix: str) -> None:
    bomb = made(tmp_path, PACKED[suffix](b"first\n" + b"x" * (60 << 20)))
    tracemalloc.start()
    with pytest.raises(ReplayError, match=r"line 2 has over 1,048,576 bytes.*is it a log\?"):
        list(read_lines(bomb, longest=1 << 20))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40 << 20


@pytest.mark.slow
def test_lines_without_a_date_take_no_memory(settings: Settings, tmp_path: Path) -> None:
    bomb = made(tmp_path, gzip.compress((b"x" * 1_000 + b"\n") * 60_000))
    tracemalloc.start()
    done = replay(settings, bomb, servers=[server(settings, tmp_path)])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (done.lines, done.files) == (60_000, 1)
    assert most < 48 << 20


def test_the_settings_bound_what_is_replayed(settings: Settings, tmp_path: Path) -> None:
    narrow = settings.model_copy(update={"limits": Limits(unpacked_log_bytes=1_000)})
    with pytest.raises(ReplayError, match="unpack to over 1,000"):
        replay(narrow, made(tmp_path, gzip.compress(LINE * 99)), servers=[server(settings, tmp_path)])


def test_the_disk_is_not_filled(settings: Settings, tmp_path: Path) -> None:
    narrow = server(settings, tmp_path, reserve=1 << 60)
    with pytest.raises(ReplayError, match=r"would be left on the disk.*Make room"):
        replay(settings, made(tmp_path, LINE + b"\n"), servers=[narrow])
    assert [each.stat().st_size for each in narrow.files] == [0]


@formats
def test_a_packed_log_that_ends_early_is_damaged(tmp_path: Path, suffix: str) -> None:
    data = PACKED[suffix](b"".join(LINE + b"%d\n" % n for n in range(5_000)))
    for end in (7, len(data) // 2, len(data) - 1):
        with pytest.raises(ReplayError, match="damaged"):
            list(blocks(made(tmp_path, data[:end])))
    with pytest.raises(ReplayError, match=r"not a .* file, despite its name"):
        blocks(made(tmp_path, b"plain", f"x{suffix}"))


def archived(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("some.log", LINE)
    else:
        with tarfile.open(fileobj=out, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("some.log"))
    return out.getvalue()


NO_LOG = {
    "zip": (archived("zip"), "a zip archive: unzip it"),
    "tar": (archived("tar"), "a tar archive: unpack it with tar xf"),
    **{
        f"tar{suffix}": (pack(archived("tar")), "a tar archive: unpack it with tar xf")
        for suffix, pack in PACKED.items()
    },
    "lz4": (lz4.frame.compress(LINE), "packed with lz4: unpack it with lz4 -d"),
    "7z": (b"7z\xbc\xaf\x27\x1c rest", "a 7z archive"),
    "rar": (b"Rar!\x1a\x07 rest", "a rar archive"),
    "Z": (b"\x1f\x9d rest", "packed with compress"),
    "parquet": (b"PAR1 rest", "a Parquet file"),
}


@pytest.mark.parametrize(("data", "message"), NO_LOG.values(), ids=NO_LOG)
def test_what_is_no_log_is_refused_by_name_with_the_remedy(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(ReplayError, match=f"{message}.*name one log of it"):
        list(blocks(made(tmp_path, data)))


@pytest.mark.slow
@examples(200)
@given(st.sampled_from(list(PACKED)), st.data())
def test_no_bytes_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    whole = bytearray(PACKED[suffix](LINE * data.draw(st.integers(0, 50))))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(whole)))
        whole[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path = made(tmp_path_factory.getbasetemp(), bytes(whole), "odd.log")
    try:
        assert sum(map(len, blocks(path, 4_000))) <= max(4_000, len(whole))
    except ReplayError as refused:
        assert "odd.log" in str(refused)  # noqa: PT017

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sluice.collection import position
from sluice.collection.position import Position, identity, line_before, rewind, rewind_to


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """1,000 lines of growing length, a few of them longer than a block."""
    path = tmp_path / "access.2026-01-05.log"
    path.write_bytes(b"".join(b"x" * (3_000_000 if n % 400 == 399 else n % 50) + b"\n" for n in range(1_000)))
    return path


@pytest.mark.parametrize("max_line", [10, 16 << 20])
@pytest.mark.parametrize("sent", [0, 1, 2, 49, 5_000, 20_000, 3_000_001, 7_000_000, 50_000_000])
def test_so_many_sent_bytes_back(log: Path, sent: int, max_line: int) -> None:
    data = log.read_bytes()
    read = data[: data[: len(data) - 500].rindex(b"\n") + 1]
    lines = read.split(b"\n")[:-1]
    wanted, at = 0, len(read)
    while wanted < sent and lines:
        line = lines.pop()
        wanted += min(len(line), max_line) + 1
        at -= len(line) + 1
    assert line_before(log, len(read), sent, max_line) == at


def test_positions_go_back_and_never_forward(tmp_path: Path, log: Path) -> None:
    path = tmp_path / "position.json"
    size = log.stat().st_size
    gone = {"inode": 8, "pos": 77, "file": str(tmp_path / "gone.log")}
    path.write_text(json.dumps([{"inode": log.stat().st_ino, "pos": size, "file": str(log)}, gone]))
    os.utime(path, (1_000, 1_000))
    moved = rewind(path, 100, 1 << 20)
    assert path.stat().st_mtime == 1_000  # so the agent knows a position that is older than a generation
    (entry, same) = position.read(path) or []
    assert moved == {str(log): (size, entry.pos)}
    assert entry.pos == line_before(log, size, 100, 1 << 20)
    assert same == Position(**gone)


def test_positions_go_back_to_given_places(tmp_path: Path, log: Path) -> None:
    path, entry = tmp_path / "position.json", {"inode": log.stat().st_ino, "pos": 90, "file": str(log)}
    path.write_text(json.dumps([entry]))
    os.utime(path, (1_000, 1_000))
    assert rewind_to(path, {"other.log": 0, str(log): 91}) == {}
    assert rewind_to(path, {str(log): 40}) == {str(log): (90, 40)}
    assert position.read(path) == [Position(log.stat().st_ino, 40, str(log))]
    assert path.stat().st_mtime == 1_000
    assert rewind_to(tmp_path / "none.json", {str(log): 40}) == {}


@pytest.mark.parametrize(("inode", "beyond"), [(0, 1), (1, 0)])
def test_a_position_in_an_earlier_content_stays(tmp_path: Path, log: Path, inode: int, beyond: int) -> None:
    """Taken back it would look like a place in the new content, and the agent would see no truncation."""
    status, path = log.stat(), tmp_path / "position.json"
    before = {"inode": status.st_ino + inode, "pos": status.st_size + beyond, "file": str(log)}
    path.write_text(json.dumps([before]))
    assert rewind(path, 100, 1 << 20) == {}
    assert position.read(path) == [Position(**before)]


@pytest.mark.parametrize("text", ["", "[{", '[{"inode": 1}]'])
def test_a_torn_position_file_means_from_the_beginning(tmp_path: Path, text: str) -> None:
    path = tmp_path / "position.json"
    path.write_text(text)
    assert position.read(path) is None
    assert rewind(path, 100, 1 << 20) == {}
    assert not path.exists()


def test_reached_end(log: Path) -> None:
    status = log.stat()
    assert Position(status.st_ino, status.st_size, str(log)).reached_end
    assert not Position(status.st_ino, status.st_size - 1, str(log)).reached_end
    assert not Position(status.st_ino, status.st_size + 1, str(log)).reached_end  # it was truncated
    assert not Position(status.st_ino + 1, status.st_size, str(log)).reached_end


def test_identity_does_not_name_the_instance() -> None:
    assert identity(Path("/srv/a/frontends/web1/x.log"), Path("/srv/a"), {}) == "frontends/web1/x.log"
    assert identity(Path("/var/log/x.log"), Path("/srv/a"), {}) == "/var/log/x.log"


def test_the_generation_is_part_of_the_identity(tmp_path: Path) -> None:
    path = tmp_path / "generations.json"
    assert position.generations(path) == {}
    path.write_text(json.dumps({"x.log": {"generation": 2, "since": 1}, "y.log": {"generation": 0}}))
    known = position.generations(path)
    assert identity(Path("/srv/a/x.log"), Path("/srv/a"), known) == "x.log#2"
    assert identity(Path("/srv/a/y.log"), Path("/srv/a"), known) == "y.log"

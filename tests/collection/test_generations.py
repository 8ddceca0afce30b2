"""Which identity lines have whose file's name is used again: Flume's TAILDIR with Sluice's classes."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import time
from pathlib import Path

import pytest

from sluice.collection import position
from sluice_lab.waiting import until
from tests.collection.follower import NAME, Follower, Line

pytestmark = pytest.mark.slow

LONG_AGO = time.time() - 3600


class Replacements:
    """Counts how often a file of a folder was replaced by another one."""

    MOVED = 0xC0  # both from and to: the kernel makes one event of equal ones in a row

    def __init__(self, folder: Path, name: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events = self._libc.inotify_init1(os.O_NONBLOCK)
        self._name = name.encode()
        assert self._libc.inotify_add_watch(self._events, os.fsencode(folder), self.MOVED) >= 0

    def count(self) -> int:
        data, found = os.read(self._events, 1 << 20), 0
        while data:
            _, _, _, size = struct.unpack_from("iIII", data)
            found += data[16 : 16 + size].rstrip(b"\0") == self._name
            data = data[16 + size :]
        return found


def positions_written(follower: Follower, when: float) -> None:
    os.utime(follower.folder / "position.json", (when, when))


def made_again(path: Path, text: str) -> None:
    """The name with another inode."""
    path.rename(path.with_name("moved-away"))
    path.write_text(text)


def followed(follower: Follower, text: str = "one\ntwo\nthree\n") -> list[Line]:
    follower.log.write_text(text)
    follower.start()
    return follower.look()


def test_a_first_content_has_the_plain_name(follower: Follower) -> None:
    assert followed(follower) == [(NAME, 0, "one"), (NAME, 4, "two"), (NAME, 8, "three")]
    with follower.log.open("a") as out:
        out.write("four\n")
    assert follower.look() == [(NAME, 14, "four")]
    assert follower.restart() == []


def test_a_line_of_any_characters_is_proved(follower: Follower) -> None:
    text = "caf\u00e9 \u2603\0\r"
    assert followed(follower, f"{text}\n") == [(NAME, 0, text)]


def test_without_a_key_no_line_is_sent(follower: Follower) -> None:
    (follower.home / "secrets" / "identity").write_text("")
    with pytest.raises(json.JSONDecodeError):  # it said nothing
        follower.start()


def test_a_file_that_is_truncated_under_the_agent_begins_again(follower: Follower) -> None:
    followed(follower)
    follower.log.write_text("1\n")
    assert follower.look() == [(f"{NAME}#1", 0, "1")]
    follower.log.write_text("")
    assert follower.look() == []
    follower.log.write_text("x\ny\n")
    assert follower.look() == [(f"{NAME}#2", 0, "x"), (f"{NAME}#2", 2, "y")]
    follower.stop()
    positions_written(follower, time.time() + 60)
    follower.start()
    assert follower.look() == []


def test_a_file_that_grew_beyond_what_was_read_begins_again_too(follower: Follower) -> None:
    followed(follower)
    follower.log.write_text("another first line\nand a second\n")
    assert follower.look() == [(f"{NAME}#1", 0, "another first line"), (f"{NAME}#1", 19, "and a second")]


@pytest.mark.parametrize("text", ["1\n", "another first line\nand a second\n"])
def test_a_file_that_is_truncated_while_the_agent_is_stopped_begins_again(
    follower: Follower, text: str
) -> None:
    followed(follower)
    follower.stop()
    positions_written(follower, LONG_AGO)
    follower.log.write_text(text)
    follower.start()
    sent = follower.look()
    assert sent[0][:2] == (f"{NAME}#1", 0)
    assert follower.restart() in ([], sent)  # sent again if the position is as old as the generation


def test_a_beginning_that_stays_does_not_hide_a_truncation(follower: Follower) -> None:
    followed(follower)
    follower.stop()
    follower.log.write_text("one\n")
    follower.start()
    assert follower.look() == [(f"{NAME}#1", 0, "one")]


@pytest.mark.parametrize("text", ["1\n", "another first line\nand a second\n"])
@pytest.mark.parametrize("running", [True, False])
def test_a_name_that_is_made_again_begins_again(follower: Follower, text: str, running: bool) -> None:
    followed(follower)
    if not running:
        follower.stop()
    made_again(follower.log, text)
    if not running:
        follower.start()
    assert follower.look()[0][:2] == (f"{NAME}#1", 0)


def test_a_file_that_is_copied_or_restored_keeps_its_generation(follower: Follower) -> None:
    lines = followed(follower)
    made_again(follower.log, follower.log.read_text() + "four\n")
    assert follower.look() == [*lines, (NAME, 14, "four")]


def test_an_instance_that_is_moved_keeps_its_generations(follower: Follower) -> None:
    followed(follower)
    follower.log.write_text("1\n")
    lines = follower.look()
    follower.stop()
    moved = follower.home.rename(follower.home.with_name("moved"))
    follower.home = moved
    follower.start()
    assert follower.look() == lines == [(f"{NAME}#1", 0, "1")]


@pytest.mark.parametrize("text", ["1\n", "another first line\nand a second\n"])
def test_after_a_crash_lines_of_a_new_generation_have_the_same_identity(
    follower: Follower, text: str
) -> None:
    """The position file still has the position of the generation before."""
    followed(follower)
    follower.stop()
    positions_written(follower, LONG_AGO)
    follower.start()
    follower.log.write_text(text)
    sent = follower.look()
    assert sent[0][0] == f"{NAME}#1"
    follower.kill()
    follower.start()
    assert follower.look() == sent


def test_no_position_is_of_a_content_that_begins_now(follower: Follower) -> None:
    """Whatever the position file's time is: the clock may have been set back."""
    followed(follower)
    follower.stop()
    positions_written(follower, time.time() + 600)
    follower.log.write_text("another first line\nand a second\n")
    follower.start()
    assert follower.look() == [(f"{NAME}#1", 0, "another first line"), (f"{NAME}#1", 19, "and a second")]


def test_a_number_is_never_used_twice(follower: Follower) -> None:
    """A file that was moved away and back is truncated, after another one had its name."""
    followed(follower)
    made_again(follower.log, "1\n")
    assert follower.look() == [(f"{NAME}#1", 0, "1")]
    follower.log.with_name("moved-away").replace(follower.log)
    follower.log.write_text("z\n")
    assert follower.look() == [(f"{NAME}#2", 0, "z")]


def test_taking_positions_back_keeps_their_age(follower: Follower) -> None:
    """What is sent again after a crash must not make a stale position look like a new one."""
    followed(follower)
    follower.stop()
    positions_written(follower, LONG_AGO)
    follower.start()
    follower.log.write_text("another first line\nand a second\n")
    sent = follower.look()
    follower.kill()
    position.rewind(follower.folder / "position.json", 1, follower.max_line)
    follower.start()
    assert follower.look() == sent


def test_a_crash_before_the_first_line_of_a_generation(follower: Follower) -> None:
    followed(follower)
    follower.log.write_text("")
    assert follower.look() == []
    follower.kill()
    follower.log.write_text("one\ntwo\nthree\n")  # the very same: only what is on the disk tells
    follower.start()
    assert [name for name, _, _ in follower.look()] == [f"{NAME}#1"] * 3


def test_an_upgrade_goes_on_with_generation_0(follower: Follower) -> None:
    followed(follower)
    follower.stop()
    positions_written(follower, LONG_AGO)
    (follower.folder / "generations.json").unlink()
    with follower.log.open("a") as out:
        out.write("four\n")
    follower.start()
    assert follower.look() == [(NAME, 14, "four")]


def test_a_file_that_was_read_before_an_upgrade_is_known_after_it(follower: Follower) -> None:
    followed(follower)
    follower.stop()
    (follower.folder / "generations.json").unlink()
    follower.start()
    assert follower.look() == []
    follower.kill()
    made_again(follower.log, "another first line\nand a second\n")
    follower.start()
    assert follower.look()[0] == (f"{NAME}#1", 0, "another first line")


def test_damaged_generations_keep_the_source_from_starting(follower: Follower) -> None:
    followed(follower)
    follower.stop()
    (follower.folder / "generations.json").write_text('{"a')
    with pytest.raises(json.JSONDecodeError):  # it said nothing
        follower.start()


def other(follower: Follower) -> Path:
    return follower.log.with_name("access.2026-01-06.log")


def writable(follower: Follower, yes: bool) -> None:
    """Whether generations.json can be written."""
    if yes:
        (follower.folder / ".generations.json").rmdir()
        time.sleep(1.1)  # so long it is not tried again
    else:
        (follower.folder / ".generations.json").mkdir()


def test_a_file_whose_generation_cannot_be_written_waits_alone(follower: Follower) -> None:
    followed(follower)
    writable(follower, False)
    other(follower).write_text("new\n")
    os.utime(other(follower), (LONG_AGO, LONG_AGO))  # so that it is read first
    with follower.log.open("a") as out:
        out.write("four\n")
    assert follower.look() == [(NAME, 14, "four")]
    assert float(follower.counters()["SOURCE.generations"]["EventReadFail"]) > 0  # an alert, see health.py
    writable(follower, True)
    assert follower.look() == [("logs/access.2026-01-06.log", 0, "new")]


def test_a_replaced_file_whose_generation_cannot_be_written_waits_alone(follower: Follower) -> None:
    other(follower).write_text("a\n")
    assert len(followed(follower)) == 4
    writable(follower, False)
    follower.log.write_text("1\n")
    os.utime(follower.log, (LONG_AGO, LONG_AGO))
    with other(follower).open("a") as out:
        out.write("b\n")
    assert follower.look() == [("logs/access.2026-01-06.log", 2, "b")]
    writable(follower, True)
    assert follower.look() == [(f"{NAME}#1", 0, "1")]
    assert follower.restart() in ([], [(f"{NAME}#1", 0, "1")])  # its position may be as old as the generation


def test_generations_are_written_once_for_all_files(follower: Follower) -> None:
    for day in range(300):
        (follower.log.parent / f"access.{day}.log").write_text(f"line {day}\n")
    writes = Replacements(follower.folder, "generations.json")
    follower.start()
    assert len(follower.look()) == 300
    assert writes.count() == 1


@pytest.mark.parametrize("copied", [False, True])
def test_a_file_that_loses_its_name_before_its_first_line_is_read_is_sent(
    follower: Follower, copied: bool
) -> None:
    """When it is idle; its lines are taken for those of the file that has the name now only if they are."""
    follower.idle_ms = 100
    follower.log.write_text("one\ntwo\n")
    follower.start()
    made_again(follower.log, "one\ntwo\nthree\n" if copied else "new\n")
    lines: list[Line] = []
    name = NAME if copied else f"{NAME}#1"

    def sent() -> bool:
        lines.extend(follower.look())
        return lines.count((name, 4, "two")) >= (2 if copied else 1)

    until(sent, what=lambda: lines)
    old = {(name, 0, "one"), (name, 4, "two")}
    assert set(lines) == old | ({(NAME, 8, "three")} if copied else {(NAME, 0, "new")})
    follower.log.write_text("x\n")
    assert follower.look() == [(f"{NAME}#1" if copied else f"{NAME}#2", 0, "x")]


def test_a_copy_that_is_closed_before_its_original_is_known_as_a_copy(follower: Follower) -> None:
    """Files that are found idle together are closed by their inodes: the copies' are lower here."""
    follower.idle_ms = 500
    logs = [follower.home / f"logs/access.{day}.log" for day in range(12)]
    for log in logs:
        log.with_suffix(".copy").write_text(f"{log.name}\n")
    for log in logs:
        log.write_text(f"{log.name}\n")
    follower.start()
    for log in logs:
        log.rename(log.with_suffix(".moved"))
        log.with_suffix(".copy").rename(log)
    writable(follower, False)
    assert follower.look() == []
    time.sleep(2)  # no line was sent yet, so all are idle
    writable(follower, True)
    lines = follower.look() + follower.look()
    assert sorted(lines) == sorted(2 * [(f"logs/{log.name}", 0, log.name) for log in logs])

"""Which identity lines have whose file's name is used again: Flume's TAILDIR with Sluice's classes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluice.collection import position
from sluice.runtime.jvm import LIB, java
from sluice.runtime.settings import make_secret, read_secret
from sluice.transmission.mac import mac

pytestmark = pytest.mark.slow

Line = tuple[str, int, str]  # src_file, offset, text
NAME = "logs/access.2026-01-05.log"
DRIVER = Path(__file__).with_name("FollowFiles.java")
LONG_AGO = time.time() - 3600


@dataclass
class Follower:
    """The source in a process of its own, which looks at the files when it is told to."""

    home: Path
    classes: str
    _running: subprocess.Popen[str] | None = field(default=None)

    @property
    def folder(self) -> Path:
        return self.home / "flume" / "web1"

    @property
    def log(self) -> Path:
        return self.home / NAME

    def start(self) -> None:
        command = [
            java(), "-XX:TieredStopAtLevel=1", f"-Dsluice.folder={self.folder}", f"-Dsluice.home={self.home}",
            "-cp", self.classes, "FollowFiles",
            str(self.folder), str(self.home), f"{self.log.parent}/access\\.[0-9-]+\\.log",
        ]  # fmt: skip
        self._running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._answer() == []

    def look(self) -> list[Line]:
        """The lines that the source finds now."""
        process = self._process()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return self._answer()

    def stop(self) -> None:
        """In order: the position file is written."""
        process = self._process()
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0

    def kill(self) -> None:
        """The position file stays as it was."""
        self._process().kill()
        self._process().wait()

    def restart(self) -> list[Line]:
        self.stop()
        self.start()
        return self.look()

    def close(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    def _process(self) -> subprocess.Popen[str]:
        assert self._running is not None
        return self._running

    def _answer(self) -> list[Line]:
        out = self._process().stdout
        assert out is not None
        answer = json.loads(out.readline())
        for name, offset, text, proof in answer:  # both sides make the same of a line and its identity
            key = read_secret(self.home, "identity").encode()
            assert proof.encode() == mac(key, b"web1", name.encode(), offset.encode(), text.encode())
        return [(name, int(offset), text) for name, offset, text, _ in answer]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path, with the compiled driver."""
    target = tmp_path_factory.mktemp("classes")
    flume = f"{LIB / 'flume' / 'classes'}:{LIB / 'flume' / '*'}"
    javac = Path(java()).with_name("javac") if "/" in java() else "javac"
    subprocess.run([javac, "-nowarn", "-d", target, "-cp", flume, DRIVER], check=True)
    return f"{target}:{flume}"


@pytest.fixture
def follower(tmp_path: Path, classes: str) -> Iterator[Follower]:
    made = Follower(tmp_path, classes)
    made.folder.mkdir(parents=True)
    made.log.parent.mkdir()
    make_secret(tmp_path, "identity")
    yield made
    made.close()


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
    position.rewind(follower.folder / "position.json", 1)
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

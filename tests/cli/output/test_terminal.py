"""Whatever a command prints, and in whatever format, a terminal is not steered; a pipe gets the bytes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.cli.output.terminal import visible
from sluice.runtime.settings import ROOT, Settings
from tests.cli.hostile import NAMED, TEXT, walked

STEERING = {"Cc", "Cf", "Zl", "Zp", "Cs"}


def on_terminal(*command: str, **environment: str) -> str:
    """What a terminal would get of the program's output and errors."""
    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[1] &= ~termios.OPOST  # else the kernel adds carriage returns
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'include'}:{ROOT}", **environment},
    ):
        os.close(slave)
        parts = []
        while True:
            try:
                part = os.read(master, 1 << 16)
            except OSError:  # how a pty says that nobody is left
                break
            if not part:
                break
            parts.append(part)
    os.close(master)
    return b"".join(parts).decode()  # it must be UTF-8, too


def steers(text: str) -> set[str]:
    return {c for c in text if c != "\n" and unicodedata.category(c) in STEERING}


@pytest.mark.slow
def test_no_command_shows_a_terminal_what_steers_it() -> None:
    shown = on_terminal("tests.cli.hostile")
    assert steers(shown) == set()
    ended = re.findall(rf"^{NAMED} (.*) 1$", shown, re.MULTILINE)
    assert ended == [" ".join(words) for words in walked()]
    assert len(ended) > 40
    documents = re.findall(r"^JSON (.*)$", shown, re.MULTILINE)
    assert [json.loads(each) for each in documents] == [[TEXT]] * len(ended)
    assert "end ü 漢 😀" in shown  # what can be printed is


def test_a_pipe_gets_what_was_written() -> None:
    program = (
        "from sluice.cli.output import terminal; import sys; terminal.guard(); sys.stdout.write('\\x1b\\x9b')"
    )
    piped = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT / "include"
    )
    assert piped.stdout.decode() == "\x1b\x9b"


def test_nothing_goes_around_the_guard() -> None:
    """The streams of before it, and the colours that libraries make."""
    around = re.compile(r"__std(out|err)__|os\.write\([12]\b|secho|typer\.style|\brich\b|\\x1b\[|\\033")
    for path in (ROOT / "include" / "sluice" / "cli").rglob("*.py"):
        if path.name != "terminal.py":
            assert not around.search(path.read_text()), path


@given(st.text())
def test_any_text_is_shown_without_what_steers(text: str) -> None:
    shown = visible(text)
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    assert visible(shown) == shown
    if text.isprintable():
        assert shown == text


@pytest.mark.slow
@given(st.recursive(st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_stays_json_of_the_same_value(value: object) -> None:
    assert json.loads(visible(json.dumps(value, ensure_ascii=False, indent=1))) == value


@pytest.mark.stack
@pytest.mark.parametrize("style", ["table", "csv", "json"])
def test_sql_shows_what_a_line_held_and_a_terminal_is_not_steered(stack: Settings, style: str) -> None:
    statement = "SELECT concat('a', chr(27), '[2J', decode(unhex('C29B'), 'utf-8'), 'b') AS text"
    shown = on_terminal("sluice.cli.main", "--instance", stack.instance, "sql", statement, "--format", style)
    assert steers(shown) == set()
    assert "[2J" in shown
    if style == "json":
        assert json.loads(shown) == [{"text": "a\x1b[2J\x9bb"}]

"""What a terminal is shown: no character of a log line may steer it.

`guard` is called once, before any command runs. Whatever a command prints then passes through it, in whatever
format: escape sequences, C1 codes such as U+009B, carriage returns and marks that turn the direction of text
are shown as text. What is piped or written to a file stays as it is.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Iterable
from typing import TextIO

#: From this code point on `\uNNNN` is written, which is an escape of JSON, too. JSON itself escapes those
#: below it, so what stays JSON where it is JSON is `\x1b` elsewhere.
_DEL, _SPACE, _ASTRAL = 0x7F, 0x20, 0x10000
#: All but line feeds, tabs and what ASCII can print; some of them can be printed after all.
_DOUBTFUL = re.compile(r"[^\n\t\x20-\x7e]")

CLEAR, REWRITE = "\x1b[H\x1b[2J", "\r\x1b[K"  # the screen; the line
_ALARM, _PLAIN = "\x1b[31m\x1b[1m", "\x1b[0m"


def escaped(character: str) -> str:
    """A character that cannot be printed, as text: two of JSON's escapes where UTF-16 has two."""
    code = ord(character)
    if code < _SPACE:
        return f"\\x{code:02x}"
    if code < _ASTRAL:
        return f"\\u{code:04x}"
    high, low = divmod(code - _ASTRAL, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def visible(text: str) -> str:
    """The text with nothing in it that steers a terminal; line feeds and tabs stay."""
    return _DOUBTFUL.sub(lambda found: found[0] if found[0].isprintable() else escaped(found[0]), text)


def guard() -> None:
    """Let nothing but `steer` reach the terminals of this process unescaped."""
    sys.stdout, sys.stderr = (
        Guarded(stream) if stream is not None and stream.isatty() else stream
        for stream in (sys.stdout, sys.stderr)
    )


def steer(sequence: str, out: TextIO | None = None) -> None:
    """Send a sequence of our own to a terminal; elsewhere it is left out."""
    out = out or sys.stdout
    if out.isatty():
        (out.terminal if isinstance(out, Guarded) else out).write(sequence)


def alarm(text: str) -> None:
    """Print a warning to standard error, in red where that is a terminal."""
    steer(_ALARM, sys.stderr)
    sys.stderr.write(text)
    steer(_PLAIN, sys.stderr)
    sys.stderr.write("\n")
    sys.stderr.flush()


class Guarded(io.TextIOBase):
    """A terminal's stream of text, and of bytes (`buffer`)."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal
        self.buffer = _Bytes(self)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.terminal.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.terminal.errors

    def write(self, text: str) -> int:
        self.terminal.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self.terminal.flush()

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.terminal.fileno()


class _Bytes(io.BufferedIOBase):
    """The bytes' side: UTF-8, in pieces that may end inside a character."""

    def __init__(self, text: Guarded) -> None:
        self._text = text
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        self._text.write(self._decoder.decode(bytes(data)))
        return len(data)

    def flush(self) -> None:
        self._text.flush()

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()

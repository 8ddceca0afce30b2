"""Files of tasks, lists and topics: read, and refused in a line a problem."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from sluice.tasks import TasksRefused


class FileRefused(ValueError):
    """A file that cannot be read, or that is not accepted."""


def read(file: Path) -> str:
    """The file's text; - is standard input. Raises FileRefused."""
    try:
        return read_bytes(file).decode()
    except UnicodeDecodeError as error:
        raise FileRefused(
            f"{file} is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from None


def read_bytes(file: Path) -> bytes:
    """What the file holds; - is standard input. Raises FileRefused."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise FileRefused(f"{file}: {error.strerror}") from None


@contextlib.contextmanager
def refusing(file: Path) -> Iterator[None]:
    """Say of which file the problems are, and that it changed nothing."""
    try:
        yield
    except TasksRefused as refused:
        raise FileRefused(f"{file} is refused, nothing was changed\n{refused}") from None

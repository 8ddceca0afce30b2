"""Read files of tasks, lists and topics, or refuse them with a line for each problem."""

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
    """The file's bytes; - is standard input. Raises FileRefused."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise FileRefused(f"{file}: {error.strerror}") from None


@contextlib.contextmanager
def refusing(file: Path) -> Iterator[None]:
    """Name the file that has the problems, and say that nothing was changed."""
    try:
        yield
    except TasksRefused as refused:
        raise FileRefused(f"{file} is refused, nothing was changed\n{refused}") from None

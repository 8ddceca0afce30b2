"""A command that at most one process runs in an instance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def one_at_a_time(home: Path, refusal: Exception) -> Iterator[None]:
    """Hold a lock beside `home`, the instance's directory, which the command may delete. Raises `refusal`."""
    path = home.with_name(f"{home.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=0, mode=0o600):
            yield
    except Timeout:
        raise refusal from None

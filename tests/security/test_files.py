"""What other users of the machine can reach of a running instance."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.networking import private

pytestmark = pytest.mark.stack

READ_OR_WRITE, PASS = 0o006, 0o001


def open_to_all(path: Path) -> Iterator[Path]:
    """What anybody may read, list or change, of this path and of all below it that anybody gets to."""
    mode = path.stat().st_mode
    if mode & READ_OR_WRITE:
        yield path
    if path.is_dir() and mode & PASS:
        for inner in path.iterdir():
            if not inner.is_symlink():
                yield from open_to_all(inner)


def test_no_other_user_reaches_anything_of_the_instance(stack: Settings) -> None:
    assert list(open_to_all(stack.home)) == []


def test_only_postgresql_s_account_passes_its_own_group_s_way(stack: Settings) -> None:
    """Where root runs the platform; elsewhere the directory lets no group in."""
    found = stack.home.stat()
    if os.geteuid() != 0:
        assert found.st_mode & 0o077 == 0
        return
    assert found.st_mode & 0o067 == 0
    assert found.st_gid == private.account(stack).pw_gid
    data = stack.home / "data" / "postgres"
    assert data.stat().st_mode & 0o077 == 0
    assert data.stat().st_uid == private.account(stack).pw_uid

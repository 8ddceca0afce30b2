"""A Hive database of a test's own, so that it may drop the platform's tables while others use theirs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.runtime.settings import Settings
from sluice.stack import initialise
from sluice.storage.hive import Hive


@contextmanager
def own(stack: Settings) -> Iterator[Settings]:
    """The instance's settings with a database that has all tables and is deleted at the end."""
    name = f"own_{secrets.token_hex(4)}"
    settings = stack.model_copy(update={"hive": stack.hive.model_copy(update={"database": name})})
    initialise.hive_tables(settings)
    try:
        yield settings
    finally:
        with Hive(stack) as hive:
            hive.query(f"DROP DATABASE {name} CASCADE")


def bring_back(settings: Settings) -> None:
    """What `sluice up` does for Hive."""
    initialise.hive_tables(settings)
    initialise.hive_days(settings)

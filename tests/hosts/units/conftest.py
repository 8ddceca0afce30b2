"""An instance whose hosts nobody needs to reach."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.units.double import Instance, made


@pytest.fixture
def instance() -> Iterator[Instance]:
    with made() as found:
        yield found

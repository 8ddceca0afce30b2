"""PostgreSQL lost the end of its write-ahead log: it starts, with a beginning of what was committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuts.contents import PostgresContent, lose_power
from tests.cuts.damage import dice
from tests.cuts.stores import own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]


def test_what_was_committed_before_the_cut_is_there_and_nothing_else(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "postgres") as own:
        content = PostgresContent(own)
        for zeros in (False, True):
            lose_power(own, drawn, content, zeros=zeros)

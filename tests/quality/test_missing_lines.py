"""Which lines that were read are missing, from a ledger's holes and the files themselves."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.collection.agent import folder
from sluice.quality import missing_lines as module
from sluice.quality.missing_lines import (
    CollectedFile,
    MissingLines,
    collected_files,
    joined,
    missing_lines,
    uncounted_spans,
    without,
)
from sluice.runtime.arrays import Ints
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger
from tests.examples import examples
from tests.quality.front_end import NAME, FrontEnd
from tests.tasks.database import sqlite

KEY = ("web1", NAME)


@pytest.fixture
def web1(tmp_path: Path) -> FrontEnd:
    return FrontEnd(Settings(instance="test", home=tmp_path, port_base=29_000), sqlite())


def spans(*rows: tuple[int, int]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, 2)


def test_the_files_of_an_edge_and_how_far_it_has_read_them(web1: FrontEnd) -> None:
    web1.write(3)
    web1.read(18)
    found, away = collected_files(web1.settings, "logs")
    assert (found, away) == ({KEY: CollectedFile("web1", NAME, 18, date(2026, 1, 5), web1.path)}, {})
    assert collected_files(web1.settings, "shop") == ({}, {})


def test_a_file_without_a_position_was_not_read(web1: FrontEnd) -> None:
    web1.write(3)
    found, _ = collected_files(web1.settings, "logs")
    assert [file.read_to for file in found.values()] == [0]


def test_a_later_content_of_a_name_is_a_file_of_its_own(web1: FrontEnd) -> None:
    web1.write(3)
    web1.read()
    known = folder(web1.settings, "web1") / "generations.json"
    known.write_text(json.dumps({NAME: {"generation": 2}}))
    found, _ = collected_files(web1.settings, "logs")
    assert found.keys() == {("web1", f"{NAME}#2")}
    assert found["web1", f"{NAME}#2"].day == date(2026, 1, 5)


def test_an_edge_on_a_host_that_is_not_known_is_away(web1: FrontEnd) -> None:
    path = folder(web1.settings, "web1") / "agent.json"
    path.write_text(path.read_text().replace('"local"', '"h1"'))
    found, away = collected_files(web1.settings, "logs")
    assert found == {}
    assert "h1" in away["web1"]


def test_what_the_ledger_lacks_below_what_was_read(web1: FrontEnd) -> None:
    web1.counted((0, 9), (18, 27))
    counted = ByteLedger.from_rows(_rows(web1))
    file = CollectedFile(*KEY, 45, date(2026, 1, 5), web1.path)
    found = uncounted_spans({KEY: file}, counted, None)
    assert {key: rows.tolist() for key, rows in found.items()} == {KEY: [[9, 18], [27, 45]]}
    assert uncounted_spans({KEY: CollectedFile(*KEY, 9, None, web1.path)}, counted, None) == {}


@pytest.mark.parametrize(
    ("day", "wanted"),
    [(date(2026, 1, 5), [[0, 9], [18, 27]]), (date(2024, 1, 1), [[18, 27]]), (None, [[18, 27]])],
)
def test_what_retention_may_have_forgotten_is_not_missing(
    web1: FrontEnd, day: date | None, wanted: list[list[int]]
) -> None:
    """It would count again."""
    web1.counted((9, 18))
    file = CollectedFile(*KEY, 27, day, web1.path)
    found = uncounted_spans({KEY: file}, ByteLedger.from_rows(_rows(web1)), date(2025, 1, 1))
    assert found[KEY].tolist() == wanted


@given(*(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=5) for _ in range(2)))
def test_joined_stretches_have_the_bytes_of_both(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    def rows(pairs: list[tuple[int, int]]) -> Ints:
        return spans(*((start, start + length) for start, length in pairs))

    found = joined(rows(one), rows(other))
    wanted = {byte for start, length in one + other for byte in range(start, start + length)}
    assert {byte for start, end in found for byte in range(start, end)} == wanted
    assert all(end < start for end, start in zip(found[:-1, 1], found[1:, 0], strict=True))


@given(*(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=5) for _ in range(2)))
def test_what_lies_outside_other_stretches(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    def rows(pairs: list[tuple[int, int]]) -> Ints:
        return joined(spans(), spans(*((start, start + length) for start, length in pairs)))

    found = without(rows(one), rows(other), 20)
    bytes_of = [{byte for start, end in rows(each) for byte in range(start, end)} for each in (one, other)]
    assert {byte for start, end in found for byte in range(start, end)} == {
        byte for byte in bytes_of[0] - bytes_of[1] if byte < 20
    }


@examples(40)
@given(
    lines=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    block=st.integers(1, 7),
)
def test_only_stretches_in_which_a_line_begins_are_missing(
    tmp_path_factory: pytest.TempPathFactory, lines: list[int], cuts: list[int], block: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "access.log"
    data = b"".join(b"x" * length + b"\n" for length in lines)
    path.write_bytes(data)
    begins = [0, *(at + 1 for at, byte in enumerate(data[:-1]) if byte == ord("\n"))]
    bounds = sorted({min(cut, len(data)) for cut in cuts})
    rows = list(zip(bounds[::2], bounds[1::2], strict=False))
    wanted = []
    for start, end in rows:
        inside = [at for at in begins if start <= at < end]
        wanted += [(inside[0], end)] if inside else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        found = missing_lines(CollectedFile(*KEY, len(data), None, path), spans(*rows))
    assert (found.spans if found else ()) == tuple(wanted)


def test_what_is_missing_is_said_shortly() -> None:
    some = MissingLines("web1", "a.log", tuple((n, n + 2) for n in range(0, 50, 10)), 60)
    assert str(some) == "web1:a.log, bytes 0 to 1, 10 to 11, 20 to 21 and 2 more stretches"
    assert (some.first, some.bytes) == (0, 10)


def _rows(web1: FrontEnd) -> list[dict[str, object]]:
    from sluice.storage.tables import open_losses

    return [dict(row) for row in open_losses.counted_files(web1.database, "logs")]

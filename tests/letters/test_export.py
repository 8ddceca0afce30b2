"""Dead letters as files: every format, no formula, no half file, no memory of all of them."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.letters import export as module
from sluice.letters.export import EXPORTED, ExportRefused, Read, batches, export
from tests.letters.made import letter

FORMULA = b"=cmd|'/C calc'!A0"
READ: list[Read] = [
    (letter(1, FORMULA), FORMULA),
    (letter(2, b'a "quoted", \xff\x1b[2J\r line'), b'a "quoted", \xff\x1b[2J\r line'),
    (letter(3, b"the begin", size=900, host="-1", reason="forged"), None),
    (letter(4, b"x", src_file=None, src_offset=None), b"xyz"),
]


def test_json_lines_have_an_object_a_letter(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert export(READ, path) == 4
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [each["line"] for each in found] == [
        FORMULA.decode(), 'a "quoted", \\xff\x1b[2J\r line', "the begin", "xyz",
    ]  # fmt: skip
    assert [each["whole"] for each in found] == [True, True, False, True]
    assert found[2]["bytes"] == 900
    assert found[0]["arrived_at"].endswith("Z")
    assert found[3]["src_file"] is None


def test_csv_has_no_formula(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    assert export(READ, path) == 4
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["line"] == f"'{FORMULA.decode()}"
    assert rows[1]["line"] == 'a "quoted", \\xff\x1b[2J\r line'
    assert (rows[2]["host"], rows[2]["whole"]) == ("'-1", "false")
    assert (rows[3]["src_file"], rows[3]["src_offset"]) == ("", "")


def test_parquet_keeps_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    assert export(READ, path) == 4
    found = pq.read_table(path)
    assert found.schema.equals(EXPORTED)
    assert found["line"].to_pylist() == [FORMULA, READ[1][1], b"the begin", b"xyz"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_nothing_is_a_file_too(tmp_path: Path, name: str) -> None:
    assert export([], tmp_path / name) == 0
    assert (tmp_path / name).exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("mine")
    with pytest.raises(ExportRefused, match="--force"):
        export(READ, path)
    assert path.read_text() == "mine"
    assert export(READ, path, force=True) == 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_comes_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def slow() -> Iterator[Read]:
        yield READ[0]
        path.write_text("somebody else's")

    with pytest.raises(ExportRefused, match="is there already"):
        export(slow(), path)
    assert path.read_text() == "somebody else's"
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Read]:
        yield READ[0]
        raise ConnectionError("HDFS is away")

    with pytest.raises(ConnectionError):
        export(broken(), tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportRefused, match=r"none of \.jsonl, \.csv, \.parquet"):
        export(READ, tmp_path / "a.xlsx")


def test_portions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION_ROWS", 3)
    monkeypatch.setattr(module, "PORTION_BYTES", 100)
    taken: list[int] = []

    def many() -> Iterator[Any]:
        for n in range(8):
            taken.append(n)
            line = b"x" * (300 if n == 4 else 10)
            yield letter(n, line), line

    sizes = []
    for batch in batches(many()):
        sizes.append(batch.num_rows)
        assert len(taken) <= sum(sizes) + 1
    assert sizes == [3, 1, 1, 3]

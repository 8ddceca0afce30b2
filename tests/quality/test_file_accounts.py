"""Front-end files against the ledger."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.quality import file_accounts
from sluice.quality.file_accounts import FileAccount, account, line_spans
from sluice.runtime.arrays import Ints
from sluice.runtime.settings import Settings
from tests.collection.conftest import INVENTORY
from tests.examples import examples


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


@examples(60)
@given(lines=st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"x"))), chunk=st.integers(1, 16))
def test_lines_are_the_same_whatever_the_size_of_a_chunk(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], chunk: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "access.log"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"not finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_accounts, "CHUNK_BYTES", chunk)
        spans = [(int(b), int(e)) for begin, end in line_spans(path) for b, e in zip(begin, end, strict=True)]
    assert [path.read_bytes()[b : e - 1] for b, e in spans] == lines


def test_a_file_that_the_ledger_covers_misses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo\nthree\n")
    found = account(path, "web1", "access.log", ints(0), ints(14))
    assert found == FileAccount("web1", "access.log", 3, 14, 0, 0)


def test_holes_are_counted_in_lines_and_bytes_and_named(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo\nthree\nfour\nfive\n")
    found = account(path, "web1", "access.log", ints(0, 14), ints(4, 19))
    assert (found.lines, found.missing_lines, found.missing_bytes) == (5, 3, 4 + 6 + 5)
    assert found.holes == ((4, 14), (19, 24))


def test_a_line_that_was_cut_is_not_missing(tmp_path: Path) -> None:
    """What an agent cuts off a line that is too long is a hole after the line's first byte."""
    path = tmp_path / "access.log"
    path.write_bytes(b"a very long line\nb\n")
    assert account(path, "web1", "access.log", ints(0, 17), ints(6, 19)).missing_lines == 0


def test_without_a_ledger_every_line_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo\n")
    found = account(path, "web1", "access.log", file_accounts.NOTHING, file_accounts.NOTHING)
    assert (found.missing_lines, found.holes) == (2, ((0, 8),))


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.touch()
    assert account(path, "web1", "access.log", ints(0), ints(1)).lines == 0


def test_the_file_that_is_there_is_the_last_generation_of_its_name(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path, port_base=29_000)
    (tmp_path / "collection.yaml").write_text(INVENTORY)
    names = [f"frontends/web1/access.2026-01-0{day}.log" for day in (5, 6)]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    known = tmp_path / "flume" / "web1" / "generations.json"
    known.parent.mkdir(parents=True)
    known.write_text(json.dumps({names[0]: {"generation": 2}, names[1]: {"generation": 0}}))
    found = dict(file_accounts.front_end_files(settings, "h5_logs"))
    assert found == {
        ("web1", f"{names[0]}#2"): tmp_path / names[0],
        ("web1", names[1]): tmp_path / names[1],
    }

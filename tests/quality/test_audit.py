from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.quality import audit
from sluice.quality.audit import FileAccount, account, line_spans, reckon
from sluice.quality.audit import _Booked as Booked
from tests.examples import examples


def ints(*values: int) -> audit.Ints:
    return np.array(values, np.int64)


@examples(60)
@given(lines=st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"x"))), chunk=st.integers(1, 16))
def test_lines_are_the_same_whatever_the_size_of_a_chunk(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], chunk: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "access.log"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"not finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "CHUNK_BYTES", chunk)
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
    """What an agent cut off a line that is too long is a hole behind the line's first byte."""
    path = tmp_path / "access.log"
    path.write_bytes(b"a very long line\nb\n")
    assert account(path, "web1", "access.log", ints(0, 17), ints(6, 19)).missing_lines == 0


def test_without_a_ledger_every_line_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo\n")
    found = account(path, "web1", "access.log", audit.NOTHING, audit.NOTHING)
    assert (found.missing_lines, found.holes) == (2, ((0, 8),))


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.touch()
    assert account(path, "web1", "access.log", ints(0), ints(1)).lines == 0


FILE = FileAccount("web1", "access.log", lines=10, bytes=100, missing_lines=0, missing_bytes=0)
ENDS = {0: 8, 1: 4}


def booked(**changes: object) -> Booked:
    """Ten lines, of which one is dead and nine are counted, and two doubles: twelve records."""
    complete = Booked(
        records=12, doubled=2, counted=9, dead=1, event_lines=9, dead_rows=1, archived=12, last_seq=3,
        projected=3, committed=dict(ENDS), archived_to=dict(ENDS), computed_lines=9,
        ledger={("web1", "access.log"): (ints(0), ints(100))},
    )  # fmt: skip
    return replace(complete, **changes)


def hops(
    book: Booked, file: FileAccount = FILE, moving: tuple[str, ...] = (), raw: int = 12, unique: int = 9
) -> audit.Hops:
    return reckon(
        "logs", booked=book, kafka_end=ENDS, accounts=(file,), moving=list(moving),
        hive_raw=raw, hive_unique=unique,
    )  # fmt: skip


def test_a_platform_at_rest_agrees() -> None:
    found = hops(booked())
    assert found.ok
    assert not found.in_flight
    assert found.counts() == {
        "lines_read": 10, "kafka": 12, "doubled": 2, "online": 9, "archived": 12, "hive_raw": 12,
        "hive_unique": 9, "dead_lettered": 1, "lost": 0,
    }  # fmt: skip


def test_a_hole_is_in_flight_while_lines_move_and_lost_once_they_rest() -> None:
    holed = replace(FILE, missing_lines=1, missing_bytes=9, lines=11)
    assert hops(booked(), holed, moving=("lines in channels",)).lost == 0
    assert hops(booked(committed={0: 8, 1: 3}), holed).lost == 0
    found = hops(booked(), holed)
    assert found.lost == 1
    assert not found.ok
    assert not found.disagreements  # the loss explains every difference


def test_a_line_counted_twice_disagrees() -> None:
    found = hops(booked(counted=10, records=13, event_lines=10))
    assert any(d.startswith("lines_read 10 != online + dead_lettered + lost 11") for d in found.disagreements)


def test_each_hop_is_held_against_the_one_before() -> None:
    assert any("archived" in d for d in hops(booked(archived=11)).disagreements)
    assert any("hive_raw" in d for d in hops(booked(), raw=11).disagreements)
    assert any("hive_unique" in d for d in hops(booked(), unique=8).disagreements)
    assert any("event days" in d for d in hops(booked(event_lines=8)).disagreements)
    assert any("dead_letters" in d for d in hops(booked(dead_rows=0)).disagreements)


def test_what_is_on_its_way_is_said_and_not_held_against_the_hops() -> None:
    found = hops(booked(stale_days=["2015-05-17"], projected=2), unique=0)
    assert found.ok
    assert [w.split()[0] for w in found.in_flight] == ["1", "1"]
    assert "2015-05-17" in found.in_flight[1]
    found = hops(booked(archived=10, archived_to={0: 6, 1: 4}), raw=10)
    assert found.ok
    assert found.in_flight == ("2 records in Kafka that are not yet archived",)


def test_records_that_kafka_dropped_before_the_archive_are_accounted_for() -> None:
    assert hops(booked(archived=9, expired=3), raw=9).ok


def test_files_that_are_gone_are_named_and_make_their_hop_unprovable() -> None:
    book = booked(counted=19, records=22, event_lines=19)
    book.ledger["web1", "access.2015-05-16.log"] = (ints(0), ints(90))
    found = reckon(
        "logs", booked=book, kafka_end={0: 22}, accounts=(FILE,), moving=[], hive_raw=12, hive_unique=19
    )
    assert found.gone == ("web1:access.2015-05-16.log",)

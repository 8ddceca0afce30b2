"""Dead letters become lines again, a portion at a time; those that have no line are counted."""

from __future__ import annotations

import pytest

from sluice.letters import letter_lines as module
from sluice.letters.letter_lines import letter_lines
from sluice.letters.line_replay import ReplayReport
from sluice.transmission.line_schema import LINE_SCHEMA
from tests.letters.made import AT, letter


def test_a_letter_is_the_line_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION_ROWS", 2)
    given = [letter(n, b"begin", partition=3, line_in_record=n, reason="forged") for n in range(3)]
    found = list(letter_lines(((each, b"the whole line") for each in given), ReplayReport()))
    assert [len(each) for each in found] == [2, 1]
    row = found[1].to_pylist()[0]
    assert found[1].schema == LINE_SCHEMA
    assert (row["partition"], row["offset"], row["line_in_record"]) == (3, 2, 2)
    assert (row["host"], row["src_file"], row["src_offset"]) == ("web1", "a.log", 200)
    assert (row["line"], row["forged"], row["unreadable"]) == (b"the whole line", True, None)
    assert row["arrival"] == int(AT.timestamp() + 2) * 1_000


def test_portions_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION_BYTES", 10)
    found = letter_lines(((letter(n), b"12345") for n in range(5)), ReplayReport())
    assert [len(each) for each in found] == [2, 2, 1]


def test_what_has_no_line_is_counted_and_left_out() -> None:
    report = ReplayReport()
    given = [
        (letter(0, reason="dimension over 1024 bytes: path"), b"line"),
        (letter(1), None),
        (letter(2, b"\0", unreadable="undecodable: x"), None),
    ]
    (found,) = letter_lines(given, report)
    assert found.column("unreadable").to_pylist() == ["undecodable: x"]
    assert report.looked_at == 2
    assert sorted(report.refused) == [
        "an earlier release gave it up for good",
        "its whole line is neither in the archive nor in Kafka",
    ]

"""A replayed line counts once, whatever dies and whoever replays it again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.letters import letter_lines as letter_module
from sluice.letters.letter_lines import letter_lines
from sluice.letters.line_replay import LineReplay, ReplayReport
from sluice.runtime.sections import Limits
from sluice.speed.ledger import ByteLedger
from sluice.storage.tables.dead_letters import DeadLetter
from sluice.transmission.line_identity import KAFKA_HOST
from sluice.transmission.line_schema import LINE_SCHEMA
from sluice.transmission.redacted import redact
from tests.examples import examples
from tests.letters.made import letter
from tests.letters.speed_layer import SHOP, SpeedLayer


def good(number: int) -> bytes:
    return f'{{"at": "2015-05-{17 + number % 2}T10:00:00Z", "n": {number}}}'.encode()


def of_kafka(number: int, line: bytes) -> DeadLetter:
    return letter(number, line, host=KAFKA_HOST, src_file="logs/0", src_offset=number)


LETTERS = [
    *(letter(n, good(n)) for n in range(4)),
    *(of_kafka(n, good(n)) for n in range(4, 8)),
    letter(8, b"still no time"),
    letter(9, good(9), reason="forged", host=KAFKA_HOST),
    letter(10, b"\0", reason="undecodable", unreadable="undecodable: x"),
    of_kafka(11, good(11) + b"\n"),
]
COUNTED = 8


def run(layer: SpeedLayer | None, ledger: ByteLedger | None = None, **limits: Any) -> Any:
    report = ReplayReport()
    lines = letter_lines([(each, None if each.unreadable else each.line) for each in LETTERS], report)
    made = LineReplay("logs", SHOP, Limits(**limits), ledger or ByteLedger(), layer, report=report)
    return made.run(lines, lambda _: None)


def test_what_the_other_topic_reads_is_sent_and_counts() -> None:
    layer = SpeedLayer()
    report = run(layer)
    assert (report.looked_at, report.sent, report.copies) == (12, COUNTED, 0)
    assert report.days == {date(2015, 5, 17): 4, date(2015, 5, 18): 4}
    assert report.still_dead == {"no event time": 1}
    assert sorted(why.split(":")[0] for why in report.refused) == [
        "forged", "of no file, with a line feed inside", "unreadable",
    ]  # fmt: skip
    assert (report.read, report.unread) == ([good(n) for n in range(3)], [b"still no time"])
    assert layer.counted()[0] == COUNTED


def test_a_second_replay_finds_the_lines_in_the_ledger() -> None:
    layer = SpeedLayer()
    run(layer)
    number, ledger = layer.counted()
    report = run(layer, ledger)
    assert (report.sent, report.copies) == (0, number)
    assert layer.counted()[0] == COUNTED


@pytest.mark.parametrize("written", range(COUNTED + 1))
def test_a_replay_that_dies_anywhere_is_repeated(written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_module, "PORTION_ROWS", 3)
    layer = SpeedLayer(written)
    try:
        run(layer)
    except ConnectionError:
        layer.fails_after = None
        run(layer)  # the speed layer committed nothing meanwhile: all are sent again
    assert layer.counted()[0] == COUNTED


def test_two_replays_at_once_double_nothing() -> None:
    layer = SpeedLayer()
    assert run(layer).sent == run(layer).sent == COUNTED
    assert len(layer.records) == 2 * COUNTED
    assert layer.counted()[0] == COUNTED


def test_a_dry_run_only_looks() -> None:
    assert run(None).sent == COUNTED


def test_a_line_over_the_limit_stays() -> None:
    report = run(SpeedLayer(), line_bytes=20)
    assert (report.sent, report.still_dead["line over 20 bytes"]) == (0, COUNTED)


def archived(numbers: Sequence[int], file: str = "a.log") -> pa.RecordBatch:
    """Lines of a file as the archive has them; each has the same length."""
    size = len(good(10)) + 1
    rows = [
        {
            "partition": 0, "offset": at, "arrival": 0, "host": "web1", "src_file": file,
            "src_offset": number * size, "line": good(10 + number),
        }
        for at, number in enumerate(numbers)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, LINE_SCHEMA)


def send(
    layer: SpeedLayer | None, *portions: pa.RecordBatch, known: ByteLedger | None = None
) -> ReplayReport:
    made = LineReplay("logs", SHOP, Limits(), known or ByteLedger(), layer, report=ReplayReport())
    return made.run(portions, lambda _: None)


def test_consecutive_lines_go_as_one_block() -> None:
    layer = SpeedLayer()
    report = send(layer, archived(range(50)))
    assert (report.sent, len(layer.records)) == (50, 1)
    assert layer.counted()[0] == 50


def test_copies_in_the_archive_are_counted_as_such() -> None:
    report = send(None, archived(range(20)), archived([5, 6, 20, 20]))
    assert (report.looked_at, report.sent, report.copies) == (24, 21, 3)
    assert report.days == {date(2015, 5, 17): 11, date(2015, 5, 18): 10}


def test_an_erased_line_goes_nowhere_nor_do_its_copies() -> None:
    """A front-end may have sent the file again, after the lines were erased."""
    lines = archived(range(6))
    erased = np.isin(np.arange(6), (2, 3))
    table = redact(pa.Table.from_batches([lines]), erased, 1, np.zeros(6, np.int64), erased)
    layer = SpeedLayer()
    report = send(layer, table.combine_chunks().to_batches()[0], archived(range(8)))
    assert set(layer.read()[0]) == {good(10 + n) for n in range(8) if n not in (2, 3)}
    assert report.refused == {"erased, and redacted in the archive": 2}
    assert (report.sent, report.copies) == (6, 6)


@examples(200)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_whatever_dies_and_whoever_sends_it_again_each_line_counts_once(seed: int, number: int) -> None:
    """Copies in the archive, replays that die anywhere, and an agent that sends parts of the file, too."""
    dice = random.Random(seed)  # noqa: S311
    came = [n for n in range(number) for _ in range(dice.choice((1, 1, 1, 2)))]
    came += [n for n in range(number) if dice.random() < 0.2]
    cuts = sorted(dice.randrange(len(came) + 1) for _ in range(3))
    bounds = zip([0, *cuts], [*cuts, len(came)], strict=True)
    portions = [archived(came[begin:end]) for begin, end in bounds if begin < end]
    layer = SpeedLayer()
    for _ in range(dice.randrange(3)):
        layer.fails_after = len(layer.records) + dice.randrange(4)
        try:
            send(layer, *portions)
        except ConnectionError:
            continue
    layer.fails_after = None
    begin = dice.randrange(number)
    send(layer, archived(range(begin, min(number, begin + 7))))  # as an edge does
    report = send(layer, *portions)
    found, ledger = layer.read()
    assert found == {good(10 + n): date(2015, 5, 17 + n % 2) for n in range(number)}
    assert (report.sent, report.copies) == (number, len(came) - number)
    assert Counter(found.values()) == report.days
    last = LineReplay("logs", SHOP, Limits(), ledger, layer, report=ReplayReport()).run(
        portions, lambda _: None
    )
    assert (last.sent, last.copies) == (0, len(came))

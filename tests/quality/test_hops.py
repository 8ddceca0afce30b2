"""The hops of a topic, and what does not add up among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sluice.cli.audit import notes
from sluice.quality.file_accounts import FileAccount
from sluice.quality.hops import HopCounts, Hops, reckon
from sluice.runtime.arrays import Ints
from sluice.storage.tables.tallies import TOPIC, Tally
from sluice.storage.tables.topic_totals import TopicTotals


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


FILE = FileAccount("web1", "access.log", lines=10, bytes=100, missing_lines=0, missing_bytes=0)
ENDS = {0: 8, 1: 4}


def totals(**changes: object) -> TopicTotals:
    """Twelve records of a line each: ten lines (nine counted, one dead) and two doubles."""
    complete = TopicTotals(
        lines=12, doubled=2, counted=9, dead=1, event_lines=9, dead_rows=1, archived=12,
        archived_records=12, last_seq=3, projected=3, committed=dict(ENDS),
        archived_to=dict(ENDS), computed_lines=9,
        ledger={("web1", "access.log"): (ints(0), ints(100))},
    )  # fmt: skip
    return replace(complete, **changes)


def hops(
    book: TopicTotals, file: FileAccount = FILE, moving: tuple[str, ...] = (), raw: int = 12, unique: int = 9
) -> Hops:
    return reckon(HopCounts("logs", book, ENDS, (file,), list(moving), hive_raw=raw, hive_unique=unique))


def test_a_platform_at_rest_agrees() -> None:
    found = hops(totals())
    assert found.ok
    assert not found.in_flight
    assert found.counts() == {
        "lines_read": 10, "kafka": 12, "doubled": 2, "online": 9, "unmatched": 0, "archived": 12,
        "hive_raw": 12, "hive_unique": 9, "dead_lettered": 1, "lost": 0,
    }  # fmt: skip


def test_what_hive_did_not_say_is_named_and_no_proof() -> None:
    read = HopCounts("logs", totals(), ENDS, (FILE,), [], hive_raw=12, hive_unique=9, unseen="it is away")
    found = reckon(read)
    assert not found.ok
    assert not found.disagreements
    assert notes(found) == ["NOT SEEN: hive_raw and hive_unique are what the books say, for it is away"]


def test_a_hole_is_in_flight_while_lines_move_and_lost_once_they_rest() -> None:
    holed = replace(FILE, missing_lines=1, missing_bytes=9, lines=11)
    assert hops(totals(), holed, moving=("lines in channels",)).lost == 0
    assert hops(totals(committed={0: 8, 1: 3}), holed).lost == 0
    found = hops(totals(), holed)
    assert found.lost == 1
    assert not found.ok
    assert not found.disagreements  # the loss explains every difference


def test_a_line_counted_twice_disagrees() -> None:
    found = hops(totals(counted=10, lines=13, event_lines=10))
    assert any(d.startswith("lines_read 10 != online + dead_lettered + lost 11") for d in found.disagreements)


def test_lines_that_were_erased_are_named_and_are_no_loss() -> None:
    found = hops(totals(lines=10, counted=8, dead=0, event_lines=8, dead_rows=0, redacted=2), unique=8)
    assert found.ok
    assert notes(found)[-1].startswith(
        "2 redacted: these lines were online or dead letters until they were erased"
    )
    (wrong,) = hops(totals(lines=11, counted=9, dead=0, dead_rows=0, redacted=2)).disagreements
    assert wrong == "lines_read 10 != online + dead_lettered + redacted + lost 11"


def test_each_hop_is_compared_with_the_one_before() -> None:
    assert any("archived 11" in d for d in hops(totals(archived=11)).disagreements)
    assert any("archived records 11" in d for d in hops(totals(archived_records=11)).disagreements)
    assert any("hive_raw" in d for d in hops(totals(), raw=11).disagreements)
    assert any("hive_unique" in d for d in hops(totals(), unique=8).disagreements)
    assert any("event days" in d for d in hops(totals(event_lines=8)).disagreements)
    assert any("dead_letters" in d for d in hops(totals(dead_rows=0)).disagreements)


def test_days_that_the_table_lacks_are_told_from_lines_that_nobody_computed() -> None:
    remedy = "`sluice up` shows them again"
    (lacking,) = hops(totals(), unique=8).disagreements
    assert lacking.startswith(
        "hive_unique 8 != online, of the days that are over 9; the table logs lacks days"
    )
    assert remedy in lacking
    (uncounted,) = hops(totals(computed_lines=8), unique=8).disagreements
    assert remedy not in uncounted


def test_lines_in_flight_are_reported_and_are_no_disagreement() -> None:
    found = hops(totals(stale_days=["2015-05-17"], projected=2), unique=0)
    assert found.ok
    assert [w.split()[0] for w in found.in_flight] == ["1", "1"]
    assert "2015-05-17" in found.in_flight[1]
    found = hops(totals(archived=10, archived_records=10, archived_to={0: 6, 1: 4}), raw=10)
    assert found.ok
    assert found.in_flight == ("2 records in Kafka that are not yet archived",)


def test_a_line_dated_years_ahead_keeps_nothing_in_flight() -> None:
    found = hops(totals(days_to_come={"2099-01-01": 1}), unique=8)
    assert found.ok
    assert not found.in_flight
    agrees, to_come = notes(found)
    assert agrees == "every hop agrees; nothing is in flight"
    assert to_come.startswith("1 lines are of days that are not over (2099-01-01): nightly_batch computes")
    assert any("hive_unique" in d for d in hops(totals(days_to_come={"2099-01-01": 1})).disagreements)


def test_records_that_kafka_dropped_before_the_archive_are_accounted_for() -> None:
    assert hops(totals(archived=9, archived_records=9, expired=3), raw=9).ok


def test_lines_beyond_the_archive_s_retention_are_not_looked_for_in_hive() -> None:
    assert hops(totals(beyond_retention=4), raw=totals().archived - 4).ok
    assert not hops(totals(beyond_retention=4)).ok


def test_records_of_several_lines_agree_with_the_lines_in_them() -> None:
    """The twelve lines came in five records."""
    ends = {0: 3, 1: 2}
    book = totals(archived_records=5, committed=dict(ends), archived_to=dict(ends))
    found = reckon(HopCounts("logs", book, ends, (FILE,), [], hive_raw=12, hive_unique=9))
    assert found.ok
    assert (found.kafka, found.archived) == (5, 12)
    one_short = replace(book, archived=11)
    found = reckon(HopCounts("logs", one_short, ends, (FILE,), [], hive_raw=11, hive_unique=9))
    assert found.disagreements == ("archived 11 != lines_read - lost + doubled 12",)


def test_files_that_are_gone_are_named_and_make_their_hop_unprovable() -> None:
    book = totals(counted=19, lines=22, event_lines=19)
    book.ledger["web1", "access.2015-05-16.log"] = (ints(0), ints(90))
    found = reckon(HopCounts("logs", book, {0: 22}, (FILE,), [], hive_raw=12, hive_unique=19))
    assert found.gone == ("web1:access.2015-05-16.log",)


def test_records_of_no_file_keep_the_files_provable_and_are_named() -> None:
    """Another producer's or forged ones: the ledger has their places in Kafka."""
    ledger = {**totals().ledger, ("kafka", "logs/0"): (ints(3, 7), ints(4, 9))}
    book = totals(
        ledger=ledger,
        lines=15,
        dead=4,
        dead_rows=4,
        archived=15,
        archived_records=15,
        committed={0: 16},
        archived_to={0: 16},
    )
    found = reckon(HopCounts("logs", book, {0: 15}, (FILE,), [], hive_raw=15, hive_unique=9))
    assert found.ok
    assert not found.gone
    assert (
        notes(found)[1]
        == "3 records were not collected from a file: another producer's, forged or unreadable"
    )
    found = reckon(HopCounts("logs", book, {0: 16}, (FILE,), [], hive_raw=15, hive_unique=9))
    assert found.disagreements == ("archived records 15 != kafka - expired 16",)


def test_skipped_lines_are_named_by_task_and_earlier_releases_are_owned_up_to() -> None:
    tallies = {TOPIC: Tally(4, 0, 3, 0), (1, 2): Tally(1, 2, 3, 1), (2, 1): Tally(7)}
    found = hops(totals(tallies=tallies, names={1: "paths", 2: "all"}, untold=2))
    assert (found.ok, found.unmatched, found.counts()["unmatched"]) == (True, 3, 3)
    skipped, untold = notes(found)[-2:]
    assert skipped.startswith("paths (1v2) skipped 4 of 7 lines: 3 unmatched, 1 too long")
    assert "2 lines were counted by an earlier release" in untold
    assert not hops(totals(untold=-1)).ok  # more was tallied than counted

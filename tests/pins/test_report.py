"""What fails the audit, and what only warns."""

from __future__ import annotations

import datetime

from tests.pins.accepted import Entry
from tests.pins.made_up import NETTY, TODAY, entry, known, record
from tests.pins.report import Report

TOMORROW = TODAY + datetime.timedelta(days=1)


def report(*entries: Entry, date: datetime.date = TODAY) -> Report:
    return Report.of([NETTY], known(record("GHSA-1", fixed="4.1.133.Final"), date=date), entries)


def test_an_open_advisory_fails_with_the_remedy() -> None:
    made = report()
    assert made.failed(TODAY)
    line = "netty-codec-http 4.1.132.Final in hbase/shaded.jar: GHSA-1 (high); fixed in 4.1.133.Final"
    assert f"open: io.netty:{line}" in made.text(TODAY)
    assert (
        made.text(TODAY).splitlines()[-1] == "audit: open advisories: 1, in 1 places; on the reasoned list: 0"
    )


def test_an_accepted_one_passes_with_its_reason() -> None:
    made = report(entry("GHSA-1"))
    assert not made.failed(TODAY)
    assert "because no request ever reaches this codec" in made.text(TODAY)
    assert (
        made.text(TODAY).splitlines()[-1] == "audit: open advisories: 0, in 0 places; on the reasoned list: 1"
    )


def test_an_entry_that_matches_nothing_fails() -> None:
    made = report(entry("GHSA-1"), entry("GHSA-2"))
    assert made.failed(TODAY)
    assert "nothing matches GHSA-2" in made.text(TODAY)


def test_an_entry_past_its_date_fails_from_that_day_on() -> None:
    made = report(entry("GHSA-1"))
    assert not made.failed(TODAY)
    assert made.failed(TOMORROW)
    assert "to be reviewed" in made.text(TOMORROW)
    assert made.faults() == []  # so `make test` does not begin to fail on a day


def test_old_advisories_only_warn() -> None:
    made = report(entry("GHSA-1"), date=TODAY - datetime.timedelta(days=31))
    assert not made.failed(TODAY)
    assert "warning: a database is of 2026-05-01, 31 days ago" in made.text(TODAY)
    assert "warning" not in report(entry("GHSA-1")).text(TODAY)

"""Made-up advisories and pins for the tests."""

from __future__ import annotations

import datetime

from tests.pins.accepted import Entry
from tests.pins.advisories import Known, Record
from tests.pins.pinned import Pin

TODAY = datetime.date(2026, 6, 1)
NETTY = Pin("Maven", "io.netty:netty-codec-http", "4.1.132.Final", "hbase/shaded.jar")


def record(
    name: str = "GHSA-1",
    *,
    package: str = NETTY.name,
    ecosystem: str = "Maven",
    aliases: tuple[str, ...] = (),
    **limits: str,
) -> Record:
    """An advisory about one range: `introduced` (0 unless given), `fixed` or `last_affected`."""
    events = [{kind: at} for kind, at in {"introduced": "0", **limits}.items()]
    return {
        "id": name,
        "aliases": list(aliases),
        "modified": "2026-05-01",
        "affected": [
            {
                "package": {"ecosystem": ecosystem, "name": package},
                "ranges": [{"type": "ECOSYSTEM", "events": events}],
            }
        ],
        "database_specific": {"severity": "HIGH", "source": "a database"},
    }


def known(*records: Record, date: datetime.date = TODAY) -> Known:
    return Known({"a database": date}, records)


def entry(*ids: str, packages: tuple[str, ...] = (NETTY.name,), where: tuple[str, ...] = ("*",)) -> Entry:
    return Entry(
        ids=ids, packages=packages, where=where, reason="no request ever reaches this codec", shown="a test",
        review_by=TODAY + datetime.timedelta(days=1),
    )  # fmt: skip

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from sluice.batch.uncounted import SOURCE, tell, uncounted
from sluice.storage import alerts
from sluice.storage.alerts import Alert


class Book:
    """The table of alerts, as far as it is asked."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {"other 2015-05-17: task 9v1": "not this topic's"}

    def sync(self, _: Any, source: str, current: dict[str, str], prefix: str) -> None:
        assert source == SOURCE
        self.open = {name: why for name, why in self.open.items() if not name.startswith(prefix)} | current

    def open_alerts(self, _: Any, source: str) -> list[Alert]:
        return [Alert(source, name, why, datetime(2026, 1, 1, tzinfo=UTC)) for name, why in self.open.items()]


def test_versions_that_failed_are_known_by_day_until_they_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book = Book()
    engine: Any = None
    monkeypatch.setattr(alerts, "sync", book.sync)
    monkeypatch.setattr(alerts, "open_alerts", book.open_alerts)
    first, second = date(2015, 5, 17), date(2015, 5, 18)
    tell(engine, "shop: a", first, {(3, 1): "Broken: x", (4, 2): "Broken: y"})
    tell(engine, "shop: a", second, {(3, 1): "Broken: x"})
    assert uncounted(engine, "shop: a") == {(3, 1): {first, second}, (4, 2): {first}}
    assert "shop: a 2015-05-17: task 3v1 could not be counted: Broken: x" in book.open.values()
    tell(engine, "shop: a", first, {})
    assert uncounted(engine, "shop: a") == {(3, 1): {second}}
    assert uncounted(engine, "shop") == {}

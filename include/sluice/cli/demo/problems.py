"""What can go wrong with the demo, and where to look then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings

TOPIC = "logs"
#: Over how many emulated hosts the demo may run.
MOST_HOSTS = 5


class DemoError(RuntimeError):
    """The demo cannot go on; says what to look at."""


class NoLog(ValueError):
    """The log that was named cannot be used."""


def look(settings: Settings) -> str:
    return f"see `sluice status`, and Airflow at {settings.airflow.url}"

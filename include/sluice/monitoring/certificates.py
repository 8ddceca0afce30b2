"""An alert before the certificate of the doors ends: with it everybody's log-ins end, the platform's too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack import tls
from sluice.storage import alerts

SOURCE = "tls"
#: Those that the instance makes are renewed earlier.
SOON = timedelta(days=14)


def tell(settings: Settings, database: sa.Engine) -> None:
    """Raise the alert, keep it, or clear it."""
    alerts.sync(database, SOURCE, dict(ending(settings)))


def ending(settings: Settings) -> Iterator[tuple[str, str]]:
    """The alert's name and message, if the doors show a certificate that ends soon, or has."""
    try:
        until = tls.shown(settings).until if tls.doors(settings) else None
    except FileNotFoundError:  # nothing shows one yet
        return
    if until is None or until > datetime.now(UTC) + SOON:
        return
    verb = "ends" if until > datetime.now(UTC) else "ended"
    if own := settings.tls.certificate:
        remedy = f"put a new one into {own}, with its key, and it is taken up within the hour"
    else:
        remedy = "`sluice up` makes a new one, and says so if it cannot"
    yield "certificate", f"the certificate of the doors {verb} on {until:%Y-%m-%d %H:%M} UTC: {remedy}"

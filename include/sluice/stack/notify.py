"""Tells people of raised and cleared alerts: by a webhook, by mail, or both.

The gateway runs ``python -m sluice.stack.notify`` in the host's network. A channel that hangs holds nothing
else up.

An event is sent again and again until every channel has accepted it. So it can come more than once, and it
cannot get lost while the platform lives.
"""

from __future__ import annotations

import smtplib
import time
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from typing import NoReturn

import requests
from sqlalchemy.exc import SQLAlchemyError

from sluice.runtime.parent import end_with_parent
from sluice.runtime.sections import Notifications
from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice.storage.tables.alerts import AlertEvent

SECONDS = 10.0
#: At most this many alerts at a time, because nobody reads more.
MOST = 50
EVERY_SECONDS = 20.0


def tell(settings: Settings, say: Callable[[str], None]) -> None:
    """Send the events that were not sent yet.

    If a channel fails, the next call sends them all again, to every channel.
    """
    database, where = engine(settings), settings.notifications
    if not where.given:  # nobody was told, so the events wait
        return
    events = alerts.untold_events(database, MOST)
    if not events:
        return
    try:
        if where.webhook:
            _post(settings, events)
        if where.mail_to:
            _mail(settings, events)
    except (requests.RequestException, smtplib.SMTPException, OSError) as error:
        say(f"{len(events)} events of alerts cannot be told yet: {type(error).__name__}: {error}")
        return
    alerts.mark_told(database, events)


def forget(settings: Settings) -> None:
    """Take the events for sent; for an instance that tells nobody."""
    database = engine(settings)
    alerts.mark_told(database, alerts.untold_events(database, MOST))


def run(say: Callable[[str], None]) -> NoReturn:
    """Tell for ever."""
    while True:
        time.sleep(EVERY_SECONDS)
        try:
            tell(Settings(), say)  # read again, because the first start makes the password
        except SQLAlchemyError as error:  # PostgreSQL may be restarting; the events wait in it
            say(f"alerts cannot be read: {str(error).splitlines()[0]}")


def _post(settings: Settings, events: Sequence[AlertEvent]) -> None:
    """Send one POST with a JSON object for each event."""
    with requests.Session() as http:
        http.trust_env = False
        for event in events:
            answer = http.post(
                settings.notifications.webhook,
                json=document(settings, event),
                timeout=SECONDS,
                allow_redirects=False,
            )
            answer.raise_for_status()


def document(settings: Settings, event: AlertEvent) -> dict[str, str]:
    """The object that a webhook gets for an event; `text` suits Slack, Mattermost and the like."""
    return {
        "instance": settings.instance,
        "event": event.what,
        "source": event.source,
        "name": event.name,
        "message": event.message,
        "at": event.at.isoformat(),
        "text": _line(settings, event),
    }


def _mail(settings: Settings, events: Sequence[AlertEvent]) -> None:
    """Send one mail with all events."""
    where = settings.notifications
    mail = EmailMessage()
    first = _line(settings, events[0])
    more = f" and {len(events) - 1} more" if len(events) > 1 else ""
    mail["Subject"] = " ".join(f"{first[:100]}{more}".split())  # a message may have line breaks, a header not
    mail["From"], mail["To"] = where.mail_from, ", ".join(where.mail_to)
    lines = [f"{event.at.isoformat()}  {_line(settings, event)}\n" for event in events]
    mail.set_content("".join(lines))
    with _server(where) as server:
        if where.smtp_user:
            server.login(where.smtp_user, where.smtp_password)
        server.send_message(mail)


def _server(where: Notifications) -> smtplib.SMTP:
    server = smtplib.SMTP(where.smtp_host, where.smtp_port, timeout=SECONDS)
    if where.smtp_starttls:
        server.starttls()
    return server


def _line(settings: Settings, event: AlertEvent) -> str:
    return f"[sluice {settings.instance}] {event.what}: {event.message}"


if __name__ == "__main__":
    end_with_parent()
    run(DaemonLog("notify"))

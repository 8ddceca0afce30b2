"""Tells people of raised and cleared alerts: by a webhook, by mail, or both.

An event is sent again and again until every channel has accepted it. So it can come more than once, and it
cannot get lost while the platform lives.
"""

from __future__ import annotations

import smtplib
from collections.abc import Callable, Sequence
from email.message import EmailMessage

import requests

from sluice.runtime.settings import Notifications, Settings
from sluice.storage import untold
from sluice.storage.postgres import engine
from sluice.storage.untold import Event

SECONDS = 10.0
#: At most this many alerts at a time: nobody reads more, and a channel that is down holds up the watch.
MOST = 50


def tell(settings: Settings, say: Callable[[str], None]) -> None:
    """Send the events that were not sent yet.

    If a channel fails, the next call sends them all again, to every channel.
    """
    database, where = engine(settings), settings.notifications
    events = untold.events(database, MOST)
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
    untold.told(database, events)


def _post(settings: Settings, events: Sequence[Event]) -> None:
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


def document(settings: Settings, event: Event) -> dict[str, str]:
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


def _mail(settings: Settings, events: Sequence[Event]) -> None:
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


def _line(settings: Settings, event: Event) -> str:
    return f"[sluice {settings.instance}] {event.what}: {event.message}"

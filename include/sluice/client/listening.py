"""Server-sent events, from one connection after another."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence

import requests

from sluice.client.models import Event
from sluice.client.session import Session

#: The server says something every 15 s.
SILENCE_SECONDS = 60.0
RETRY_SECONDS = 3.0
KINDS, END = ("commit", "publication", "backfill", "superseded"), "end"


def events(session: Session, tasks: Sequence[str], retry: float = RETRY_SECONDS) -> Iterator[Event]:
    """The events of these tasks (none: of all), for ever; after a break only what was missed."""
    last = ""
    while True:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        answer = session.get("/events", {"task": list(tasks)}, headers, stream=True, silence=SILENCE_SECONDS)
        with answer:
            for fields in _parsed(answer):
                last = fields.get("id", last)
                kind = fields.get("event")
                if kind == END:
                    session.forget()
                elif kind in KINDS:
                    yield Event.of(kind, json.loads(fields["data"]))
        time.sleep(retry)


def _parsed(answer: requests.Response) -> Iterator[Mapping[str, str]]:
    """The fields of each event, until the connection breaks."""
    fields: dict[str, str] = {}
    try:
        for line in answer.iter_lines(chunk_size=1, decode_unicode=True):
            name, _, value = line.partition(": ")
            if not line and fields:
                yield fields
                fields = {}
            elif name:
                fields[name] = value
    except requests.RequestException:  # the caller connects again
        return

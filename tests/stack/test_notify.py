"""Alerts are told when they are raised and when they are cleared, until each channel has taken them."""

from __future__ import annotations

import json
import smtplib
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.runtime.sections import Notifications
from sluice.runtime.settings import Settings
from sluice.stack import notify
from sluice.storage.tables import alerts
from tests.tasks.database import sqlite


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    made = sqlite()
    monkeypatch.setattr(notify, "engine", lambda settings: made)
    return made


class Hook(BaseHTTPRequestHandler):
    """A webhook that keeps what it gets, and fails while `away`."""

    got: list[dict[str, str]]
    away = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.away:
            self.got.append(json.loads(body))
        self.send_response(503 if self.away else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Mailbox(socketserver.StreamRequestHandler):
    """Just enough of an SMTP server to take one mail."""

    got: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 test\r\n")
        while line := self.rfile.readline():
            command = line[:4].upper()
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                text = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.got.append(text.decode())
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")
            if command == b"QUIT":
                return


def serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def hook() -> Iterator[int]:
    Hook.got, Hook.away = [], False
    yield from serving(HTTPServer(("127.0.0.1", 0), Hook))


@pytest.fixture
def mailbox() -> Iterator[int]:
    Mailbox.got = []
    yield from serving(socketserver.TCPServer(("127.0.0.1", 0), Mailbox))


def settings(tmp_path: Path, **channels: object) -> Settings:
    return Settings(instance="test", home=tmp_path, notifications=Notifications(**channels))  # type: ignore[arg-type]


def test_a_webhook_hears_of_each_alert_twice(database: sa.Engine, hook: int, tmp_path: Path) -> None:
    where = settings(tmp_path, webhook=f"http://127.0.0.1:{hook}/")
    alerts.sync(database, "reconcile", {"logs 2015-05-17": "logs 2015-05-17 differs in 3 results"})
    notify.tell(where, pytest.fail)
    notify.tell(where, pytest.fail)  # nothing new
    alerts.sync(database, "reconcile", {})
    notify.tell(where, pytest.fail)
    assert [(each["event"], each["source"]) for each in Hook.got] == [
        ("raised", "reconcile"),
        ("cleared", "reconcile"),
    ]
    assert Hook.got[0]["text"] == "[sluice test] raised: logs 2015-05-17 differs in 3 results"


def test_what_could_not_be_told_is_told_later(database: sa.Engine, hook: int, tmp_path: Path) -> None:
    where, said = settings(tmp_path, webhook=f"http://127.0.0.1:{hook}/"), []
    alerts.sync(database, "s", {"n": "it is broken"})
    Hook.away = True
    notify.tell(where, said.append)
    assert "1 events of alerts cannot be told yet: HTTPError" in said[0]
    alerts.sync(database, "s", {})
    Hook.away = False
    notify.tell(where, pytest.fail)
    assert [each["event"] for each in Hook.got] == ["raised", "cleared"]


def test_a_mail_has_all_events_and_no_message_forges_a_header(
    database: sa.Engine, mailbox: int, tmp_path: Path
) -> None:
    where = settings(tmp_path, mail_to=["ann@example.org", "bob@example.org"], smtp_port=mailbox)
    alerts.sync(database, "s", {"a": "first\r\nBcc: evil@example.org", "b": "second"})
    notify.tell(where, pytest.fail)
    (mail,) = Mailbox.got
    head, body = mail.replace("\r\n", "\n").split("\n\n", 1)
    assert "To: ann@example.org, bob@example.org" in head
    assert "and 1 more" in head.replace("\n ", " ")
    assert "\nBcc:" not in head
    assert "second" in body


def test_without_a_channel_nothing_piles_up(database: sa.Engine, tmp_path: Path) -> None:
    alerts.sync(database, "s", {"n": "it is broken"})
    notify.forget(settings(tmp_path))
    assert alerts.untold_events(database, 10) == []


def test_a_mail_server_that_is_away_is_said(database: sa.Engine, tmp_path: Path) -> None:
    said: list[str] = []
    alerts.sync(database, "s", {"n": "it is broken"})
    notify.tell(settings(tmp_path, mail_to=["ann@example.org"], smtp_port=1), said.append)
    assert "cannot be told yet" in said[0]
    assert smtplib.SMTPException.__name__ not in said[0]

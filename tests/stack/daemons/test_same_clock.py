"""HBase waits until its clock is HDFS's, however far it is ahead or behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.daemons import same_clock
from sluice.stack.daemons.same_clock import await_same_clock


class ToldTime(BaseHTTPRequestHandler):
    """A NameNode that tells these times one after another, and the right one from then on; None: no time."""

    ahead: list[float | None] = []  # noqa: RUF012 - of all requests
    status = 200

    def do_GET(self) -> None:
        left = self.ahead.pop(0) if self.ahead else 0.0
        self.send_response_only(self.status)
        if left is not None:
            self.send_header("Date", formatdate(time.time() + left, usegmt=True))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setattr(same_clock, "POLL_SECONDS", 0.01)
    server = HTTPServer(("127.0.0.1", 0), ToldTime)
    Thread(target=server.serve_forever, daemon=True).start()
    made = Settings(instance="test", home=tmp_path)
    where = {"webhdfs": f"http://127.0.0.1:{server.server_port}"}
    yield made.model_copy(update={"hdfs": made.hdfs.model_copy(update=where)})
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        ([], ""),
        ([50.0], ""),
        ([-7_200.0, -7_200.0, 5.0], "this one is 120 minutes ahead of HDFS's"),
        ([7_200.0, -300.0], "this one is 120 minutes behind HDFS's"),
        ([None, 0.0], ""),
    ],
)
def test_it_returns_once_the_clocks_agree(
    settings: Settings, capsys: pytest.CaptureFixture[str], ahead: list[float | None], said: str
) -> None:
    ToldTime.ahead = ahead
    await_same_clock(settings)
    assert ahead == []
    assert said in (printed := capsys.readouterr().out)
    assert bool(printed) == bool(said)


def test_an_hdfs_that_tells_no_time_keeps_nobody_waiting(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(same_clock, "SILENT_SECONDS", 0.1)
    gone = settings.hdfs.model_copy(update={"webhdfs": "http://127.0.0.1:9"})
    await_same_clock(settings.model_copy(update={"hdfs": gone}))
    assert "HDFS does not tell its time" in capsys.readouterr().out


def test_an_hdfs_that_refuses_tells_its_time(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToldTime, "status", 401)
    ToldTime.ahead = ahead = [-7_200.0, 0.0]
    await_same_clock(settings)
    assert ahead == []

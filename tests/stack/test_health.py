"""What a health check makes of answers that pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import health
from sluice.stack.daemon import Unhealthy

BEAN = "Hadoop:service=HBase,name=Master,sub=Server"


@contextmanager
def without_metrics_at_first(times: int) -> Iterator[str]:
    """A /jmx page that lacks the bean when it is asked for the first times."""
    left = [times]

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            beans = [] if left[0] else [{"name": BEAN, "numRegionServers": 1}]
            left[0] = max(0, left[0] - 1)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"beans": beans}).encode())

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_bean_that_is_away_for_a_moment_is_waited_for() -> None:
    with without_metrics_at_first(2) as url:
        assert health.jmx(url, BEAN, away_seconds=0.5)["numRegionServers"] == 1


def test_a_bean_that_stays_away_is_named() -> None:
    with (
        without_metrics_at_first(1_000) as url,
        pytest.raises(Unhealthy, match=f"does not report {BEAN} yet"),
    ):
        health.jmx(url, BEAN, away_seconds=0.2)


def test_a_bean_that_is_never_away_is_asked_for_once() -> None:
    with without_metrics_at_first(1) as url, pytest.raises(Unhealthy):
        health.jmx(url, BEAN)


@pytest.mark.stack
def test_an_endpoint_on_another_catalogue_is_unhealthy(
    stack: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    health.sql(stack)
    assert stack.hive.database in health.metastore_databases(stack)
    elsewhere = stack.model_copy(update={"hive": stack.hive.model_copy(update={"database": "elsewhere"})})
    health.sql(elsewhere)  # neither has it: it is not made yet
    assert re.fullmatch("[0-9a-f]{16}", health.metastore_mark(stack))
    assert health.metastore_mark(elsewhere) == ""
    with monkeypatch.context() as patch:  # a catalogue that has the same names
        patch.setattr(health, "metastore_mark", lambda settings: "0123456789abcdef")
        with pytest.raises(Unhealthy, match="it uses another catalogue"):
            health.sql(stack)
        with pytest.raises(Unhealthy, match="it uses another catalogue"):
            health.sql(elsewhere)
    monkeypatch.setattr(health, "metastore_databases", lambda settings: frozenset({"default", "elsewhere"}))
    with pytest.raises(Unhealthy, match="does not show the database elsewhere"):
        health.sql(elsewhere)

"""`sluice resend`: what it says of what is missing, and that it asks and waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from sluice.archive import index
from sluice.cli import resend as module
from sluice.cli.main import app
from sluice.collection import deploy
from sluice.collection.agent import folder
from sluice.quality import archived_bytes, loss_watch, resend
from sluice.runtime.settings import get_settings
from sluice.storage import postgres
from sluice.storage.tables import alerts, open_losses, schema
from tests.quality.front_end import NAME, TOPIC, FrontEnd
from tests.tasks.database import sqlite


@pytest.fixture
def web1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrontEnd]:
    """Ten lines were read; two that Kafka had before nobody counted."""
    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    get_settings.cache_clear()
    made = FrontEnd(get_settings(), sqlite())
    for where in (resend, archived_bytes, index, loss_watch, postgres):
        monkeypatch.setattr(where, "engine", lambda settings: made.database)
    monkeypatch.setattr(resend, "kafka_ends", lambda settings, topic: {0: 8})
    monkeypatch.setattr(deploy, "send_again", made.send_again)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(loss_watch, "TOLD_SECONDS", 0.0)
    made.write(10)
    made.read()
    made.lost(0, 0, 0)
    open_losses.settle(made.database, open_losses.open_losses(made.database))
    made.counted((0, 72))
    made.committed(8)
    made.archived(0, 8, [0], arrival=1)
    yield made
    get_settings.cache_clear()


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["resend", *arguments])


def test_a_dry_run_says_what_is_missing_and_changes_nothing(web1: FrontEnd) -> None:
    done = run("--dry-run")
    said = f"would be sent again from byte 72: web1:{NAME}, bytes 72 to 89\n"
    assert (done.stdout, done.exit_code) == (said, 1)
    assert web1.orders == []
    assert open_losses.open_losses(web1.database) == []
    web1.counted((0, 90))
    done = run("--dry-run")
    assert (done.stdout, done.exit_code) == ("nothing is missing\n", 0)


def test_it_has_the_edge_send_again_and_waits_for_it(web1: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    def arrives(*arguments: Any) -> object:
        moved = web1.send_again(*arguments)
        web1.read()
        web1.counted((0, 90))
        return moved

    monkeypatch.setattr(deploy, "send_again", arrives)
    alerts.sync(web1.database, "archive", {loss_watch.for_good(TOPIC): "Kafka lost lines"})
    done = run()
    assert web1.orders == [{NAME: 72}]
    assert done.stdout.splitlines() == [
        f"sent again, because it was missing: web1:{NAME}, bytes 72 to 89 (18 bytes)",
        f"{TOPIC}: nothing is missing",
    ]
    assert done.exit_code == 0
    assert alerts.open_alerts(web1.database) == []


def test_what_cannot_be_sent_again_is_named(web1: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    def arrives_not(*arguments: Any) -> object:
        moved = web1.send_again(*arguments)
        web1.read()
        return moved

    monkeypatch.setattr(deploy, "send_again", arrives_not)
    done = run()
    assert done.exit_code == 1
    assert "still missing: web1" in done.stdout.splitlines()[-1]


def test_a_layer_that_is_behind_is_not_waited_for_for_ever(
    web1: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(resend, "kafka_ends", lambda settings, topic: {0: 9})
    done = run()
    assert done.exit_code == 1
    assert "lines were still on their way after 0.05 s" in done.output
    assert len(open_losses.open_losses(web1.database)) == 1  # the DAG goes on


def test_a_topic_that_no_edge_sends_into_is_refused(web1: FrontEnd) -> None:
    done = run("--topic", "shop")
    assert done.exit_code == 2
    assert "no deployed edge sends into 'shop'" in done.output


def test_a_topic_whose_edges_are_gone_is_settled(web1: FrontEnd) -> None:
    (folder(web1.settings, "web1") / "agent.json").unlink()
    alerts.sync(web1.database, "archive", {loss_watch.for_good(TOPIC): "Kafka lost lines"})
    done = run("--dry-run")
    assert (done.stdout, done.exit_code) == (f"{TOPIC}: {loss_watch.NOBODY_SENDS}\n", 1)
    done = run()
    assert done.stdout == f"{TOPIC}: {loss_watch.NOBODY_SENDS}. The alerts about it are cleared\n"
    assert done.exit_code == 0
    assert alerts.open_alerts(web1.database) == []


def test_a_topic_that_no_layer_has_read_has_lost_nothing(web1: FrontEnd) -> None:
    with web1.database.begin() as connection:
        connection.execute(sa.delete(schema.log_eras))
    done = run()
    assert "no layer has read the topic yet" in done.stdout
    assert (done.exit_code, web1.orders) == (0, [])

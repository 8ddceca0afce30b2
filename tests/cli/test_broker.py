"""Kafka starts again when its listener for hosts comes or goes, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli import broker
from sluice.cli.broker import BrokerNotBack
from sluice.runtime.settings import Settings
from sluice.stack import entry, supervisord
from sluice.stack.daemons import kafka
from sluice.transmission import listener
from sluice.transmission.listener import Listener


@pytest.fixture
def changed(tmp_path: Path) -> Settings:
    """An instance whose broker began without the listener that it is to have now."""
    settings = Settings(instance="test", home=tmp_path)
    kafka.configure(settings)
    (tmp_path / "hosts").mkdir()
    listener.write(tmp_path, Listener("127.0.0.1", "identity.p12", "trust.p12", "1"))
    return settings


def test_it_starts_again_and_is_waited_for(changed: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(supervisord, "running", lambda _: True)
    monkeypatch.setattr(supervisord, "stop_program", lambda _, name: steps.append(f"stop {name}"))

    def start(settings: Settings, name: str) -> None:
        kafka.configure(settings)
        steps.append(f"start {name}")

    problems = iter(["it is not there yet", None])
    monkeypatch.setattr(supervisord, "start_program", start)
    monkeypatch.setattr(entry, "check", lambda *_: next(problems))
    monkeypatch.setattr(broker, "_POLL", 0.0)
    said: list[str] = []
    broker.start_again(changed, said.append)
    broker.start_again(changed, said.append)
    assert steps == ["stop kafka", "start kafka"]
    assert said == ["Kafka starts again, because its listeners change"]
    text = (changed.home / "conf" / "kafka" / "server.properties").read_text()
    assert f"HOSTS://127.0.0.1:{changed.port(listener.PORT)}" in text


def test_one_that_does_not_come_back_is_named(changed: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, answer in (("running", True), ("stop_program", None), ("start_program", None)):
        monkeypatch.setattr(supervisord, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(broker, "HEALTHY_SECONDS", 0.0)
    with pytest.raises(
        BrokerNotBack, match=r"not healthy after 0 s \(it does not start\): sluice logs kafka"
    ):
        broker.start_again(changed, print)


def test_what_does_not_run_under_the_supervisor_is_the_users(
    changed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisord, "running", lambda _: False)
    said: list[str] = []
    broker.start_again(changed, said.append)
    assert said == ["Kafka's listeners change: if it runs, start it again"]
    theirs = changed.model_copy(update={"external": frozenset({"kafka"})})
    broker.start_again(theirs, said.append)
    assert len(said) == 1

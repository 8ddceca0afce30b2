"""An inventory is shown, refused or watched; writing a new one ends the watch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.runtime.settings import Settings
from sluice_lab.waiting import SECONDS
from tests.loops import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def restored(home: Path) -> Path:
    """The inventory of an instance without any agent, as a restore leaves it."""
    path = home / "collection.yaml"
    path.write_text((ROOT / "include" / "collection.yaml").read_text())
    return path


@pytest.fixture
def inventory(restored: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory whose agents count as deployed."""
    from sluice_airflow import collection

    monkeypatch.setattr(collection, "undeployed", lambda settings: False)
    return restored


def deferred(xcom: str | None):
    """The trigger that the supervising task defers to, rebuilt from its serialized form."""
    from airflow.sdk.exceptions import TaskDeferred

    from sluice_airflow.collection import AgentsTrigger, SuperviseCollection

    operator = SuperviseCollection(task_id="supervise", deployed_by="deploy")
    instance = SimpleNamespace(xcom_pull=lambda task_ids: {"deploy": xcom}[task_ids])
    with pytest.raises(TaskDeferred) as deferral:
        operator.execute({"ti": instance})
    path, kwargs = deferral.value.trigger.serialize()
    assert path == "sluice_airflow.collection.AgentsTrigger"
    return AgentsTrigger(**kwargs)


async def fired(trigger, seconds: float = SECONDS) -> bool:
    task = asyncio.ensure_future(anext(trigger.run()))
    done, _ = await asyncio.wait([task], timeout=seconds)
    task.cancel()
    return bool(done)


def test_inventory_written_since_its_deployment_ends_the_run(inventory: Path, connected) -> None:
    from sluice_airflow.collection import fingerprint

    settings = Settings(instance="test", home=inventory.parent)
    deployed = fingerprint(settings)
    assert not run(fired(deferred(deployed), 0.5))
    inventory.write_text(inventory.read_text() + "\n")
    assert run(fired(deferred(deployed)))


def test_hosts_written_since_the_deployment_end_the_run(inventory: Path, connected) -> None:
    from sluice_airflow.collection import fingerprint

    trigger = deferred(fingerprint(Settings(instance="test", home=inventory.parent)))
    (inventory.parent / "hosts.yaml").write_text("- {name: local, address: 127.0.0.1}\n")
    assert run(fired(trigger))


def test_after_a_failed_deployment_the_agents_are_watched_as_they_are(inventory: Path, connected) -> None:
    inventory.write_text("faulty")
    assert not run(fired(deferred(None), 0.5))


def test_agents_that_a_restore_did_not_bring_end_the_run_once(restored: Path, connected) -> None:
    """A deployment that failed is tried again after a while, and not at once."""
    from sluice_airflow.collection import fingerprint

    assert run(fired(deferred(fingerprint(Settings(instance="test", home=restored.parent)))))
    assert not run(fired(deferred(None), 0.5))


def test_what_enrolment_finds_out_ends_the_run(inventory: Path, connected) -> None:
    from sluice_airflow.collection import fingerprint

    trigger = deferred(fingerprint(Settings(instance="test", home=inventory.parent)))
    (inventory.parent / "hosts" / "h1").mkdir(parents=True)
    (inventory.parent / "hosts" / "h1" / "enrolled.json").write_text("{}")
    assert run(fired(trigger))


@pytest.mark.slow
def test_what_a_deployment_left_out_is_tried_again(
    inventory: Path, connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is deployed, so everything was left out."""
    from sluice_airflow import collection

    monkeypatch.setattr(collection, "RETRY_SECONDS", 0.0)
    deployed = collection.fingerprint(Settings(instance="test", home=inventory.parent))
    assert not run(fired(deferred(deployed), 0.5))
    assert run(fired(deferred(None)))
    inventory.write_text("faulty")
    assert not run(fired(deferred(None), 0.5))


def test_the_watch_over_losses_goes_on_after_a_fault(
    inventory: Path, connected, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sluice_airflow import collection

    class DatabaseThatComesBack:
        """Its first two looks fail, and the third one finds something."""

        looks = 0

        def look(self) -> list[str]:
            self.looks += 1
            if self.looks < 3:
                raise ConnectionError("no PostgreSQL")
            return ["all is sent again"] if self.looks == 3 else []

    monkeypatch.setattr(collection, "LOSS_SECONDS", 0.01)
    watch = DatabaseThatComesBack()
    monkeypatch.setattr(collection, "loss_watch", lambda settings: watch)
    trigger = deferred(collection.fingerprint(Settings(instance="test", home=inventory.parent)))
    assert not run(fired(trigger, 0.5))
    said = capsys.readouterr().out
    assert said.count("cannot look for what Kafka lost: ConnectionError: no PostgreSQL") == 1
    assert said.count("all is sent again") == 1


def test_plan_refuses_a_faulty_inventory(home: Path, connected) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from sluice_airflow.collection import PlanCollection

    (home / "collection.yaml").write_text("topic: logs\nfront_end: []\n")
    with pytest.raises(AirflowFailException, match="front_end"):
        PlanCollection(task_id="plan").execute({})
    assert not (home / "flume").exists()


def test_plan_shows_what_would_be_deployed(inventory: Path, connected) -> None:
    from sluice_airflow.collection import PlanCollection

    assert "web1: create" in PlanCollection(task_id="plan").execute({})

from __future__ import annotations

import pytest

from sluice.collection.agent import folder
from sluice.collection.deploy_plan import AgentChange, deployed, describe, plan
from sluice.collection.inventory import InventoryError
from sluice.runtime.settings import Settings
from tests.collection.conftest import INVENTORY, Write


def put(settings: Settings, changes: list[AgentChange]) -> None:
    """Lay the rendered files down as a deployment does."""
    for change in changes:
        assert change.rendered is not None
        folder(settings, change.agent).mkdir(parents=True)
        for name, text in change.rendered.files.items():
            (folder(settings, change.agent) / name).write_text(text)


def actions(changes: list[AgentChange]) -> dict[str, str]:
    return {change.agent: change.action for change in changes}


def test_an_empty_instance_creates_everything(settings: Settings, inventory_text: Write) -> None:
    changes = plan(settings)
    assert set(actions(changes).values()) == {"create"}
    assert deployed(settings) == []
    assert list(settings.home.iterdir()) == [settings.home / "collection.yaml"]  # it only looked


def test_the_same_inventory_changes_nothing(settings: Settings, inventory_text: Write) -> None:
    put(settings, plan(settings))
    assert set(actions(plan(settings)).values()) == {"unchanged"}
    assert [a.name for a in deployed(settings)] == ["collector1", "collector2", "web1", "web2"]


def test_only_the_agent_that_differs_changes(settings: Settings, inventory_text: Write) -> None:
    put(settings, plan(settings))
    inventory_text(INVENTORY.replace("channel: memory", "channel: file"))
    changes = plan(settings)
    assert actions(changes) == {
        "collector1": "unchanged",
        "collector2": "unchanged",
        "web1": "change",
        "web2": "unchanged",
    }
    text = describe(changes)
    assert "~ web1 (edge): change" in text
    assert "-agent.channels.buffer.type = org.apache.flume.channel.BlockChannel" in text
    assert "+agent.channels.buffer.type = file" in text


def test_an_agent_that_left_the_inventory_is_removed(settings: Settings, inventory_text: Write) -> None:
    put(settings, plan(settings))
    inventory_text(
        INVENTORY.replace("  - name: collector2\n", "")
        .replace("[collector1, collector2]", "[collector1]")
        .replace("[collector2, collector1]", "[collector1]")
    )
    assert actions(plan(settings)) == {
        "collector1": "unchanged",
        "web1": "change",
        "web2": "change",
        "collector2": "remove",
    }


def test_a_changed_limit_is_a_change(settings: Settings, inventory_text: Write) -> None:
    """A limit that is only on the command line must change too."""
    put(settings, plan(settings))
    bigger = settings.model_copy(
        update={"kafka": settings.kafka.model_copy(update={"max_message_bytes": 32 << 20})}
    )
    assert set(actions(plan(bigger)).values()) == {"change"}


def test_a_bad_inventory_is_refused_before_anything(settings: Settings, inventory_text: Write) -> None:
    put(settings, plan(settings))
    inventory_text(INVENTORY + "unknown: 1\n")
    with pytest.raises(InventoryError, match="unknown key"):
        plan(settings)

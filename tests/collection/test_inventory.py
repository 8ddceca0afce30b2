from __future__ import annotations

from pathlib import Path

import pytest

from sluice.collection import inventory
from sluice.collection.inventory import InventoryError
from sluice.runtime.settings import ROOT, Settings
from tests.collection.conftest import INVENTORY, Write


def test_the_projects_inventory_is_valid(settings: Settings) -> None:
    loaded = inventory.load(settings, ROOT / "include" / "collection.yaml")
    assert loaded.topic == "logs"
    assert len(loaded.front_ends) == len(loaded.collectors) == 2
    assert {f.channel for f in loaded.front_ends} == {"memory", "file"}
    # Opposite priorities: neither collector idles.
    assert loaded.front_ends[0].collectors == loaded.front_ends[1].collectors[::-1]


def test_ports_count_up_and_one_more_agent_moves_no_other(settings: Settings, inventory_text: Write) -> None:
    before = inventory.load(settings)
    inventory_text(INVENTORY + "  - name: collector3\n")
    after = inventory.load(settings)
    assert [c.port for c in before.collectors] == [29_100, 29_101]
    assert after.collectors[:2] == before.collectors
    assert after.front_ends == before.front_ends


def test_collectors_are_rotated_where_no_order_is_given(settings: Settings, inventory_text: Write) -> None:
    inventory_text(
        INVENTORY.replace("    collectors: [collector1, collector2]\n", "").replace(
            "    collectors: [collector2, collector1]\n", ""
        )
    )
    first, second = inventory.load(settings).front_ends
    assert first.collectors == ["collector1", "collector2"]
    assert second.collectors == ["collector2", "collector1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("channel: memory", "chanel: memory", "front_ends.0.chanel = 'memory'.*unknown key"),
        ("  - host: web1\n    files", "  - files", "front_ends.0.host: missing"),
        ("host: web2", "host: web1", "'web1': given 2 times"),
        ("name: collector2", "name: web1", "front_ends.0.host, collectors.1.name = 'web1'"),
        ("host: web1", "host: ../web1", "front_ends.0.host = '../web1': use lower-case"),
        ("host: web1", "host: kafka", "front_ends.0.host = 'kafka': records that come from no file"),
        ("channel: memory", "channel: disk", "front_ends.0.channel = 'disk'.*'memory' or 'file'"),
        ("channel: memory", "metrics_port: 29100", "29100: given 2 times"),
        ("channel: memory", "metrics_port: 29020", "29020: this is the port of kafka"),
        ("channel: memory", "metrics_port: 80", "front_ends.0.metrics_port = 80"),
        ("channel: memory", "capacity: 5", "front_ends.0.capacity = 5"),
        ("[collector1, collector2]", "[collector9]", "'collector9': no such collector"),
        ("[collector1, collector2]", "[collector1, collector1]", "name each collector once"),
        ("web1/access.%Y-%m-%d.log", "web1/access.log", "front_ends.0.files.0 = .*%Y-%m-%d"),
        ("frontends/web2", "frontends/web1", "followed by one agent only"),
        ("topic: h5_logs", "topic: a b", "topic = 'a b'"),
        ("channel: memory", "host: web3", "the key 'host' is given twice"),
        ("topic: h5_logs", "topic: [", "not YAML"),
    ],
)
def test_what_cannot_be_deployed_is_refused(
    settings: Settings, inventory_text: Write, old: str, new: str, message: str
) -> None:
    assert old in INVENTORY
    inventory_text(INVENTORY.replace(old, new, 1))
    with pytest.raises(InventoryError, match=message):
        inventory.load(settings)


def test_all_problems_are_named_at_once(settings: Settings, inventory_text: Write) -> None:
    inventory_text(INVENTORY.replace("host: web2", "host: WEB2").replace("access.%Y-%m-%d", "access"))
    with pytest.raises(InventoryError) as error:
        inventory.load(settings)
    assert str(error.value).count(";") >= 3


def test_a_missing_file_is_named(settings: Settings) -> None:
    with pytest.raises(InventoryError, match=r"nowhere\.yaml: cannot be read"):
        inventory.load(settings, Path("nowhere.yaml"))

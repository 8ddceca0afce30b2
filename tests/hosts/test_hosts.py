"""The list of hosts: what it says, and how a mistake in it is answered."""

from __future__ import annotations

import pytest

from sluice.collection.hosting import hosting
from sluice.collection.inventory import InventoryError, load
from sluice.runtime.settings import Settings
from sluice_hosts import hosts, placed
from sluice_hosts.hosts import HostsError
from tests.collection.conftest import INVENTORY, Write

TWO = """\
- name: local
  address: 127.0.0.1
- name: h1
  address: 127.0.1.1
  ssh: {user: sluice}
"""
CONNECTED = TWO.replace("ssh: {user: sluice}", "connection: ssh_h1")


def written(settings: Settings, text: str) -> Settings:
    (settings.home / hosts.FILE).write_text(text)
    return settings


def test_without_the_file_this_machine_is_the_only_host(settings: Settings) -> None:
    (only,) = hosts.load(settings.model_copy(update={"root": settings.home})).values()
    assert (only.name, only.address, only.ssh) == ("local", settings.bind_host, None)


def test_the_projects_own_list_is_this_machine_alone(settings: Settings) -> None:
    (only,) = hosts.load(settings).values()
    assert (only.name, only.address, only.ssh) == ("local", settings.bind_host, None)


def test_a_host_has_defaults(settings: Settings) -> None:
    host = hosts.load(written(settings, TWO))["h1"]
    assert host.ssh is not None
    assert (host.ssh.port, host.ssh.key_file, host.slots, host.roles) == (22, None, 8, ("edge",))


def test_a_host_names_an_airflow_connection_instead(settings: Settings) -> None:
    host = hosts.load(written(settings, CONNECTED))["h1"]
    assert (host.ssh, host.connection) == (None, "ssh_h1")


def test_this_machine_has_every_role(settings: Settings) -> None:
    assert hosts.load(settings)["local"].roles == ("edge", "collector", "jobs")
    assert hosts.load(written(settings, TWO))["local"].roles == ("edge", "collector", "jobs")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TWO.replace("user:", "usr:"), r"line 5: ssh.user: missing; add it"),
        (TWO.replace("user:", "usr:"), r"line 5: ssh.usr = 'sluice': .*; unknown key: remove it"),
        (TWO.replace("127.0.1.1", "a b"), r"line 4: address = 'a b': .*; correct it"),
        (TWO.replace("127.0.1.1", "10.0.0.300"), r"line 4: address = '10.0.0.300': no IPv4 address"),
        (TWO.replace("127.0.1.1", "10.0.1"), r"line 4: address = '10.0.1': no IPv4 address; write four"),
        (TWO.replace("127.0.1.1", "010.0.0.1"), r"line 4: address = '010.0.0.1': no IPv4 address"),
        (TWO.replace("127.0.1.1", "10.0.0.7"), r"line 4: .* network is private .*; set network: host"),
        (TWO.replace("  ssh: {user: sluice}\n", ""), r"line 3: h1: ssh is missing; add ssh"),
        (
            TWO.replace("  ssh: {user: sluice}\n", ""),
            r"to log in to, or connection: with the id of an Airflow",
        ),
        (TWO + "  connection: ssh_h1\n", r"line 6: connection = 'ssh_h1': ssh is given, too; keep one"),
        (CONNECTED.replace("ssh_h1", "--help"), r"line 5: connection = '--help': .*; correct it"),
        (
            TWO.replace("127.0.0.1", "127.0.0.1\n  connection: a"),
            r"line 3: connection: local is this machine",
        ),
        (TWO.replace("local", "h1"), r"line 1: name = 'h1': given 2 times; keep one"),
        ("- name: h1\n  address: 127.0.1.1\n  ssh: {user: a}\n", r"local is missing; add it"),
        (TWO.replace("127.0.0.1", "127.0.0.1\n  ssh: {user: a}"), r"line 3: ssh: local is this machine"),
        (TWO + "  slots: 0\n", r"line 6: slots = '0': .*"),
        (TWO + "  slots: 1\n  slots: 2\n", r"line 7: the key 'slots' is given twice; keep one"),
        (TWO + "  roles: [edge, archiver]\n", r"line 6: roles = 'archiver': .*; choose among these"),
        (TWO + "  roles: []\n", r"line 6: roles = "),
        (TWO.replace("127.0.0.1", "127.0.0.1\n  roles: [edge]"), r"line 3: roles: local has every role"),
        (
            TWO + "  roles: [jobs]\n",
            r"line 3: h1: the role jobs needs Sluice there; add release: /the/folder",
        ),
        (TWO + "  release: /opt/sluice\n", r"line 6: release: only the role jobs needs it; add the role"),
        (TWO + "  roles: [jobs]\n  release: opt/it\n", r"line 7: release = 'opt/it': .*; correct it"),
        (
            TWO.replace("127.0.0.1", "127.0.0.1\n  release: /a"),
            r"line 3: release: local runs the platform's own",
        ),
        (TWO.replace("h1", "placed"), r"line 3: name = 'placed': runs_on has this word for no host"),
        ("[", r"not YAML"),
        ("hosts", r"the list of hosts = 'hosts'"),
        ("", r"the list of hosts = 'None'"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_remedy(settings: Settings, text: str, said: str) -> None:
    with pytest.raises(HostsError, match=said):
        hosts.load(written(settings, text))


def test_another_machine_is_taken_where_the_network_is_the_hosts(settings: Settings) -> None:
    open_network = settings.model_copy(update={"network": "host"})
    text = TWO.replace("127.0.1.1", "web3.example.org")
    assert hosts.load(written(open_network, text))["h1"].address == "web3.example.org"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("channel: memory", "channel: memory\n    runs_on: h1"), r"channel = 'memory': say file"),
        (("channel: file", "channel: file\n    runs_on: h1"), r"\{home\} is on this machine"),
        (("channel: file", "channel: file\n    runs_on: h1"), r"h1 is not enrolled: run `sluice hosts enrol"),
        (
            ("channel: file", "channel: file\n    runs_on: h1"),
            r"local's certificate .*: enrol any host again",
        ),
        (
            ("channel: file", "channel: file\n    runs_on: h9"),
            r"'h9': no such host; hosts.yaml has h1, local",
        ),
    ],
)
def test_a_front_end_that_cannot_run_there_is_refused(
    settings: Settings, inventory_text: Write, change: tuple[str, str], said: str
) -> None:
    inventory_text(INVENTORY.replace(*change))
    with pytest.raises(InventoryError, match=said):
        load(written(settings, TWO))


def test_a_host_takes_no_more_agents_than_it_has_slots(settings: Settings, inventory_text: Write) -> None:
    inventory_text(INVENTORY.replace("channel:", "runs_on: h1\n    channel:"))
    with pytest.raises(InventoryError, match="h1 has 1 slots, 2 agents run on it"):
        load(written(settings, TWO + "  slots: 1\n"))


def test_a_faulty_list_is_not_read_while_no_front_end_needs_it(
    settings: Settings, inventory_text: Write
) -> None:
    assert load(written(settings, "[")).front_ends


COLLECTOR = "  - name: collector2\n"


@pytest.mark.parametrize(
    ("runs_on", "list_of_hosts", "said"),
    [
        ("h9", TWO, r"collectors.1.runs_on = 'h9': no such host; hosts.yaml has h1, local"),
        ("h1", TWO, r"collectors.1.runs_on = 'h1': the host has no role collector; add it to its `roles`"),
        ("h1", TWO + "  roles: [collector]\n", r"h1 is not enrolled: run `sluice hosts enrol h1`"),
    ],
)
def test_a_collector_that_cannot_run_there_is_refused(
    settings: Settings, inventory_text: Write, runs_on: str, list_of_hosts: str, said: str
) -> None:
    inventory_text(INVENTORY.replace(COLLECTOR, f"{COLLECTOR}    runs_on: {runs_on}\n"))
    with pytest.raises(InventoryError, match=said):
        load(written(settings, list_of_hosts))


def test_where_a_collector_is_placed_is_checked_like_a_host_that_is_named(
    settings: Settings, inventory_text: Write
) -> None:
    inventory_text(INVENTORY.replace(COLLECTOR, f"{COLLECTOR}    runs_on: placed\n"))
    written(settings, TWO)
    found = load(settings)
    assert [found.host_of(each) for each in found.collectors] == ["local", "local"]
    assert not hosting().speaks_tls(found, settings)
    with pytest.raises(InventoryError, match=r"placement.yaml: collector:collector2 = 'h1': the host has no"):
        load(settings, placed={"collector2": "h1"})
    placed.path_of(settings).write_text("[")
    with pytest.raises(InventoryError, match=r"placement.yaml: not YAML"):
        load(settings)


def test_an_edge_needs_the_role(settings: Settings, inventory_text: Write) -> None:
    inventory_text(INVENTORY.replace("channel: file", "channel: file\n    runs_on: h1"))
    with pytest.raises(InventoryError, match=r"front_ends.1.runs_on = 'h1': the host has no role edge"):
        load(written(settings, TWO + "  roles: [collector]\n"))


def test_no_collector_runs_elsewhere_with_a_kafka_that_is_not_ours(
    settings: Settings, inventory_text: Write
) -> None:
    inventory_text(INVENTORY.replace(COLLECTOR, f"{COLLECTOR}    runs_on: h1\n"))
    theirs = settings.model_copy(update={"external": frozenset({"kafka"})})
    with pytest.raises(InventoryError, match=r"collectors.1.runs_on = 'h1': Kafka is external"):
        load(written(theirs, TWO + "  roles: [collector]\n"))

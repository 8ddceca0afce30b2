"""Each source has a loopback address of its own behind the doors."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.networking import loopback, network
from sluice.stack.networking.loopback import Addresses, source_at


def test_a_source_has_one_address_also_after_a_restart(tmp_path: Path) -> None:
    addresses = Addresses(tmp_path)
    made = {source: addresses.of(source) for source in ("uid:0", "uid:65534", "192.0.2.7", "2001:db8::/64")}
    assert len(set(made.values())) == 4
    for address in made.values():
        assert ipaddress.ip_address(address).is_loopback
        assert address not in ("127.0.0.1", "127.255.255.255")
    again = Addresses(tmp_path)
    assert {source: again.of(source) for source in reversed(made)} == made
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())


def test_no_two_share_an_address_and_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "_COUNT", 16)
    monkeypatch.setattr(loopback, "MOST", 15)
    addresses = Addresses(tmp_path)
    for first in range(0, 60, 15):
        assert len({addresses.of(f"uid:{uid}") for uid in range(first, first + 15)}) == 15


def test_an_address_cannot_be_foreseen(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for each in (here, there):
        each.mkdir()
    assert Addresses(here).of("uid:0") != Addresses(there).of("uid:0")


def test_a_daemon_is_told_the_source(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path / "test", network="private")
    network.folder(settings).mkdir()
    assert source_at(settings, ("127.9.9.9", 4000), 1) == "127.9.9.9"  # nobody knows it
    address = Addresses(network.folder(settings)).of("uid:65534")
    assert source_at(settings, (address, 4000), 1) == "uid:65534"
    assert source_at(settings, ("127.0.0.1", 4000), 1) == "inside"
    hosts = Settings(instance="test", home=tmp_path / "test", network="host")
    assert source_at(hosts, ("192.0.2.7", 4000), 1) == "192.0.2.7"

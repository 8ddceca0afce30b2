"""The rules that lose packets of ports, and what is said where none can be made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice_lab.chaos import packet_loss

#: An nft that keeps what it is told, and can be told to refuse.
RECORDER = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  "-f -") cat >> {log} ;;
  "list tables") echo "table inet sluice_chaos" ;;
esac
exit {code}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="dev", home=tmp_path, network="private")


def recorder(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Path:
    """A program that stands for nft; returns where it keeps what it was told."""
    log, program = folder / "told", folder / "nft"
    program.write_text(RECORDER.format(log=log, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return log


def test_both_directions_of_each_port_are_dropped() -> None:
    text = packet_loss.rules([24020, 24021], 100)
    assert "table inet sluice_chaos {" in text
    assert "type filter hook input priority 0; policy accept;" in text
    assert "tcp dport { 24020, 24021 } drop" in text
    assert "tcp sport { 24020, 24021 } drop" in text
    assert text.count("{") == text.count("}")


def test_a_slow_network_loses_a_share_of_the_packets_in_both_directions() -> None:
    text = packet_loss.rules([24020], 25)
    assert "tcp dport { 24020 } numgen random mod 100 < 25 drop" in text
    assert "tcp sport { 24020 } numgen random mod 100 < 25 drop" in text


def test_it_says_why_it_cannot(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert packet_loss.why_not(settings) == "there is no nft (Debian: apt install nftables)"
    open_to_all = settings.model_copy(update={"network": "host"})
    assert "no network of its own" in packet_loss.why_not(open_to_all)
    monkeypatch.setattr(shutil, "which", lambda _: "nft")
    recorder(tmp_path, monkeypatch, code=1)
    assert packet_loss.why_not(settings) == "nft may not be used: exit code 1"


def test_the_rules_go_also_if_the_run_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = recorder(tmp_path, monkeypatch)
    with pytest.raises(KeyboardInterrupt), packet_loss.lost([1], 100):
        raise KeyboardInterrupt
    assert log.read_text().startswith("-f -\ntable inet sluice_chaos {")
    assert log.read_text().endswith("list tables\ndelete table inet sluice_chaos\n")


def test_rules_that_are_refused_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder(tmp_path, monkeypatch, code=1)
    with pytest.raises(packet_loss.RuleRefused, match="exit code 1"), packet_loss.lost([1], 100):
        pass

"""A broker that accepts connections and says nothing."""

from __future__ import annotations

import queue
import socket
import threading
from pathlib import Path

import pytest
from kafka.errors import KafkaError

from sluice.runtime.sections import Kafka, KafkaLogin
from sluice.runtime.settings import Settings
from sluice.transmission import clients
from sluice.transmission import topics as module
from sluice.transmission.topics import Topics
from sluice_hosts.trust import certificates
from sluice_lab.waiting import SECONDS

pytestmark = pytest.mark.slow


def test_a_broker_that_says_nothing_holds_up_nobody_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "HANDSHAKE_SECONDS", 0.2)
    monkeypatch.setattr(module, "REQUEST_MS", 1_000)
    certificates.issue(tmp_path, "h1", "127.0.0.1")
    for name, content in certificates.files(tmp_path, "h1").items():
        (tmp_path / name).write_bytes(content)
    found: queue.Queue[Exception] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kafka = Kafka(
            bootstrap=f"127.0.0.1:{silent.getsockname()[1]}",
            login=KafkaLogin(
                user="host-h1",
                password="x",
                authority=str(tmp_path / certificates.AUTHORITY),
                certificate=str(tmp_path / certificates.CERTIFICATE),
                key=str(tmp_path / certificates.KEY),
            ),
        )

        def ask() -> None:
            try:
                Topics(Settings(kafka=kafka)).describe("logs")
            except KafkaError as error:
                found.put(error)

        threading.Thread(target=ask, daemon=True).start()  # it would never end
        assert "Unable to bootstrap" in str(found.get(timeout=SECONDS))

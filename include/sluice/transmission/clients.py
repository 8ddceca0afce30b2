"""How Kafka's clients reach the broker, and log in to it if it asks who they are."""

from __future__ import annotations

from typing import Any

from sluice.runtime.settings import Kafka
from sluice.transmission import handshake


def options(kafka: Kafka) -> dict[str, Any]:
    """The options of any client of kafka-python that say where the broker is, and who asks.

    With a login they are SASL_SSL and SCRAM-SHA-512, and the client shows a certificate: the broker's
    listener for other hosts wants both.
    """
    found: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap}
    if login := kafka.login:
        handshake.limit()
        found |= {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
            "ssl_cafile": login.authority,
            "ssl_certfile": login.certificate,
            "ssl_keyfile": login.key,
        }
    return found

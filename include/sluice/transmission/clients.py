"""How Kafka's clients reach the broker, and log in to it if it asks who they are."""

from __future__ import annotations

import ssl
import time
from typing import Any

from kafka.net.transport import KafkaSSLTransport

from sluice.runtime.sections import Kafka

HANDSHAKE_SECONDS = 10.0


def options(kafka: Kafka) -> dict[str, Any]:
    """The options of any client of kafka-python that say where the broker is, and who asks.

    With a login they are SASL_SSL and SCRAM-SHA-512, and the client shows a certificate: the broker's
    listener for other hosts wants both.
    """
    found: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap}
    if login := kafka.login:
        limit_handshakes()
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


def limit_handshakes() -> None:
    """Let each TLS handshake of this process fail after HANDSHAKE_SECONDS; the client then tries again.

    kafka-python 3.0.12 has no limit. A broker that accepts a connection and then says nothing, e.g. because
    its host lost its power, would hold up a client for ever: it connects in a thread of its own, and whoever
    called it waits for that without a limit.
    """
    KafkaSSLTransport.handshake = _handshake


async def _handshake(transport: KafkaSSLTransport) -> None:
    deadline = time.monotonic() + HANDSHAKE_SECONDS
    try:
        while True:
            try:
                transport._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await transport._net.wait_read(transport._sock, deadline)
            except ssl.SSLWantWriteError:
                await transport._net.wait_write(transport._sock, deadline)
    except Exception as error:
        transport.abort(error)  # nobody else closes its socket
        raise

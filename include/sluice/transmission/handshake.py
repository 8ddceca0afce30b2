"""A limit on the time of a TLS handshake with Kafka, which kafka-python 3.0.12 does not have.

A broker that accepts a connection and then says nothing, e.g. because its host lost its power, would hold up
a client for ever: it connects in a thread of its own, and whoever called it waits for that without a limit.
"""

from __future__ import annotations

import ssl
import time

from kafka.net.transport import KafkaSSLTransport

SECONDS = 10.0


def limit() -> None:
    """Let each handshake of this process fail after SECONDS; the client then tries again."""
    KafkaSSLTransport.handshake = _handshake


async def _handshake(transport: KafkaSSLTransport) -> None:
    deadline = time.monotonic() + SECONDS
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

"""A request that is refused, and how it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

BAD, UNAUTHORIZED, FORBIDDEN, NOT_ALLOWED, SLOW = 400, 401, 403, 405, 408
TOO_LARGE, UNSUPPORTED, UNPROCESSABLE, HEAD_TOO_LARGE, UNAVAILABLE = 413, 415, 422, 431, 503
SEE_OTHER = 303
#: The rest of a refused body is thrown away for DRAIN_SECONDS, slowly, so that a client gets to read why.
DRAIN_SECONDS, DRAIN_PAUSE_SECONDS = 1.0, 0.02
JSON, HTML = b"application/json", b"text/html; charset=utf-8"
Headers = list[tuple[bytes, bytes]]


class RequestRefused(Exception):
    """The request goes no further."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Headers | None = None,
        body: bytes | None = None,
        kind: bytes = JSON,
    ) -> None:
        super().__init__(detail)
        self.status, self.headers, self.kind = status, headers or [], kind
        self.body = json.dumps({"detail": detail}).encode() if body is None else body


class Intake:
    """A request's `receive`, which knows whether there is more of a body."""

    def __init__(self, scope: Any, receive: Any) -> None:
        headers = dict(scope.get("headers", ()))
        self._receive = receive
        self.more = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

    async def __call__(self) -> Any:
        message = await self._receive()
        self.more = message["type"] == "http.request" and message.get("more_body", False)
        return message


async def answer(refused: RequestRefused, intake: Intake, send: Any) -> None:
    """Say why, and close the connection if a body was not read. Nothing of that body is kept."""
    unread = intake.more
    headers = [(b"content-type", refused.kind), (b"content-length", b"%d" % len(refused.body))]
    headers += [(b"cache-control", b"no-store"), *refused.headers]
    if unread:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body, "more_body": unread})
    if unread:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while intake.more:
                    await intake()
                    await asyncio.sleep(DRAIN_PAUSE_SECONDS)
        await send({"type": "http.response.body", "body": b""})

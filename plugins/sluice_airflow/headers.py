"""Headers that keep other sites' pages from using Airflow's pages and Sluice's API."""

from __future__ import annotations

from typing import Any

HEADERS = (
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"content-security-policy", b"frame-ancestors 'self'; object-src 'none'; base-uri 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class SecurityHeaders:
    """ASGI middleware that adds each of `HEADERS` that an answer does not set itself."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                names = {name.lower() for name, _ in given}
                message = {**message, "headers": [*given, *(h for h in HEADERS if h[0] not in names)]}
            await send(message)

        await self._app(scope, receive, sending)

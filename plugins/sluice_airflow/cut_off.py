"""Lets a client see that an answer failed half-way.

A stream that fails must end without its last chunk, so that HTTP clients report it as incomplete. Airflow's
`JWTRefreshMiddleware` (any of Starlette's `BaseHTTPMiddleware`) ends it as if it were whole. This middleware
stands around that one, and learns of the failure through the request's scope.
"""

from __future__ import annotations

from typing import Any

_KEY = "sluice.failed"


class HalfWay(RuntimeError):
    """An answer failed after it had begun, so the connection is closed."""


class CutOff:
    """ASGI middleware that does not let an answer end for which `failed` was called."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        errors = scope.setdefault(_KEY, [])

        async def sending(message: Any) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if errors and last:
                raise HalfWay(str(errors[0])) from errors[0]
            await send(message)

        await self._app(scope, receive, sending)


def failed(scope: Any, error: Exception) -> None:
    """Note that the answer to this request failed after it had begun."""
    scope.setdefault(_KEY, []).append(error)

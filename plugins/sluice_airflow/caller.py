"""Says of each request where it comes from."""

from __future__ import annotations

from typing import Any

from sluice.runtime.origin import set_origin
from sluice.runtime.settings import get_settings
from sluice.stack.networking.loopback import source_at


class Caller:
    """ASGI middleware: `sluice.runtime.origin` is the client's place as long as the request lasts."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        client, server = scope.get("client"), scope.get("server")
        if client and server:
            set_origin(lambda: source_at(get_settings(), (client[0], client[1]), server[1] or 0))
        await self._app(scope, receive, send)

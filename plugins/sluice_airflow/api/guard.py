"""Refuses requests early: other sites' pages, bodies too large or not JSON, NULs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

#: The same bound as for a file of tasks.
MAX_BODY = 1 << 20
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Bodies of pages' forms are taken below this path only, and only from a page that names its site: a form of
#: another site needs no leave of the browser to be sent.
FORMS = "/console/"
_FORM = re.compile(r"application/x-www-form-urlencoded\s*(;|$)", re.IGNORECASE)
_JSON = re.compile(r"application/([\w.-]+\+)?json\s*(;|$)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


class Guard:
    """ASGI middleware that refuses requests before the application sees them.

    A browser names the page's site in `Origin`. Only this site's own pages may change anything, because the
    browser sends the login's cookie with every page's requests. Programs send no `Origin`.

    own: returns the address that people use if there is a proxy in front of the server.
    """

    def __init__(self, app: Any, own: Callable[[], str]) -> None:
        self._app, self._own = app, own

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and ("\0" in scope["path"] or b"%00" in scope["query_string"]):
            await _refuse(send, 400, "the address holds a NUL, which no name here has: leave it out")
            return
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin")
        if origin is not None and not self._same(origin, scope, headers.get(b"host", "")):
            await _refuse(send, 403, f"origin {origin!r} may not do this: use the pages of this server")
            return
        length = headers.get(b"content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            await _refuse(send, 413, f"the body is over {MAX_BODY} bytes: send less at once")
            return
        body = await _whole(receive)
        if body is None:
            await _refuse(send, 413, f"the body is over {MAX_BODY} bytes: send less at once")
            return
        kind = headers.get(b"content-type", "")
        form = origin is not None and _below_forms(scope) and _FORM.match(kind)
        if body and not form and not _JSON.match(kind):
            await _refuse(send, 415, "the body must be JSON, with the header Content-Type: application/json")
            return

        async def replay() -> Any:
            nonlocal body
            if body is None:
                return await receive()
            sent, body = body, None
            return {"type": "http.request", "body": sent, "more_body": False}

        await self._app(scope, replay, send)

    def _same(self, origin: str, scope: Any, host: str) -> bool:
        allowed = {_place(f"{scope.get('scheme', 'http')}://{host}"), _place(self._own())}
        place = _place(origin)
        return place is not None and place in allowed


def _below_forms(scope: Any) -> bool:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")).startswith(FORMS)


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None where there are none, as for the origin "null"."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname and port else None


async def _whole(receive: Any) -> bytes | None:
    """The request's body; None if it is too large (a chunked one names no length in advance)."""
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":  # the client is gone
            return b""
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _refuse(send: Any, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

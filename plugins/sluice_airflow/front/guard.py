"""The one way to everything that the API server serves: refuses early, and before a body is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from sluice_airflow.front import access_rules, body, login, site
from sluice_airflow.front.cookie import Cookie
from sluice_airflow.front.head import RequestHead
from sluice_airflow.front.refused import (
    FORBIDDEN,
    HTML,
    SEE_OTHER,
    UNAUTHORIZED,
    Intake,
    RequestRefused,
    answer,
)

#: A browser that was led here from another site did not send the login's cookie, and does so from this page.
_AGAIN = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sluice</title>
<meta http-equiv="refresh" content="0"></head><body></body></html>"""
POLICY = 1008  # the code by which a web socket is closed
Check = Callable[[RequestHead, str], Awaitable[None]]


class Guard:
    """ASGI middleware: origin, login, size and speed of a request; and the login's cookie.

    own: returns the address that people use. source: returns who sent a request to the server, by what the
    server sees of the connection. check: raises Refused without a valid login.
    """

    def __init__(
        self,
        app: Any,
        own: Callable[[], str],
        source: Callable[[tuple[object, ...] | None], str],
        check: Check = login.check,
    ) -> None:
        self._app, self._own, self._source, self._check = app, own, source, check

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        intake = Intake(scope, receive)
        try:
            head = RequestHead.of(scope, self._own())
            cookie = Cookie(head, self._source(head.peer))
            token = cookie.token()
            await self._admit(head, cookie, token)
            if intake.more:
                whole = await body.read(head, intake)
                body.check(head, whole)
                receive = _replayed(whole, receive)
        except RequestRefused as refused:
            await answer(refused, intake, send)
            return
        except body.ClientGone:
            return
        scope = {**scope, "headers": cookie.incoming(list(scope["headers"]), token)}
        await self._app(scope, receive, cookie.sending(send))

    async def _admit(self, head: RequestHead, cookie: Cookie, token: str) -> None:
        """Raises RequestRefused unless the request may go on to its body."""
        site.check(head, by_cookie=bool(token) and "authorization" not in head.headers)
        if access_rules.public(head):
            return
        try:
            await self._check(head, token)
        except RequestRefused as refused:
            if "authorization" in head.headers or refused.status not in (UNAUTHORIZED, FORBIDDEN):
                raise
            raise _not_logged_in(head, cookie, token, refused) from refused


def _not_logged_in(head: RequestHead, cookie: Cookie, token: str, refused: RequestRefused) -> RequestRefused:
    """What a request without a valid login gets: a person is led to the log-in, a program is told."""
    headers = [*refused.headers, *([cookie.set("")] if token else [])]
    if not head.wants_page or not access_rules.page(head.path):
        return RequestRefused(UNAUTHORIZED, str(refused), headers=headers)
    if not token and site.led_here(head):
        return RequestRefused(UNAUTHORIZED, "", headers=headers, body=_AGAIN, kind=HTML)
    if head.path.startswith(access_rules.CONSOLE):
        return RequestRefused(UNAUTHORIZED, "", headers=headers, body=_console(head), kind=HTML)
    there = f"{access_rules.LOG_IN_PAGE}?next={quote(head.address, safe='')}"
    return RequestRefused(SEE_OTHER, "", headers=[*headers, (b"location", there.encode())], body=b"")


def _console(head: RequestHead) -> bytes:
    """The console's own page for it: it stands in a frame, or a form was sent."""
    from fastapi import Request

    from sluice_airflow.console.route import failed

    scope = {
        "type": "http",
        "method": head.method,
        "path": head.path,
        "root_path": "/sluice",
        "query_string": head.query.encode("latin-1"),
        "headers": [(b"host", head.headers.get("host", "").encode("latin-1"))],
        "scheme": head.scheme,
        "server": None,
    }
    return bytes(failed(Request(scope), UNAUTHORIZED, "log in first").body)


def _replayed(whole: bytes, receive: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """`receive`, which gives the body first."""
    left: list[bytes] = [whole]

    async def replay() -> Any:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replay

"""Lets a Prometheus server scrape with a user's name and password (HTTP basic authentication).

Airflow takes only tokens, which end after hours, and a Prometheus server cannot fetch a new one. So a request
for the metrics that comes with a password gets a token of a minute here, and goes on as any other request.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import secrets
from typing import Any

from airflow.api_fastapi.auth.managers.simple.datamodels.login import LoginBody
from fastapi import HTTPException

from sluice.runtime.passwords import PasswordHash
from sluice.runtime.settings import get_settings
from sluice.stack.users import Users
from sluice_airflow.auth import log_in, token_of

PATH = "/metrics"
TOKEN_SECONDS = 60


class BasicLogin:
    """ASGI middleware that exchanges a password for a token, at `PATH` only.

    Checking a password takes 0.2 s of CPU time on purpose. A password that was right is known again by a hash
    under a key of this process, as long as the user's stored hash stays what it was. A directory (LDAP) is
    asked each time.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._key = secrets.token_bytes(32)
        # By user, so it is as short as the list of users.
        self._right: dict[str, tuple[PasswordHash, bytes]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = _password(scope) if scope["type"] == "http" else None
        if given is not None:
            try:
                token = await asyncio.to_thread(self._token, *given)
            except HTTPException as refused:
                await _refuse(send, refused)
                return
            others = [pair for pair in scope["headers"] if pair[0].lower() != b"authorization"]
            scope = {**scope, "headers": [*others, (b"authorization", f"Bearer {token}".encode())]}
        await self._app(scope, receive, send)

    def _token(self, name: str, password: str) -> str:
        """A token for the user. Raises HTTPException if the password is wrong, or guessed too often."""
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        user = Users(get_settings()).all().get(name)
        hashed, known = self._right.get(name, (None, b""))
        if user is not None and user.password == hashed and hmac.compare_digest(known, digest):
            return token_of(user, TOKEN_SECONDS)
        token = log_in(LoginBody(username=name, password=password), TOKEN_SECONDS)
        if user is not None and user.password is not None and not user.origin:
            self._right[name] = user.password, digest
        return token


def _password(scope: Any) -> tuple[str, str] | None:
    """The name and password that come with a request for the metrics; None without any."""
    if scope["path"].removeprefix(scope.get("root_path", "")) != PATH:
        return None
    for name, value in scope["headers"]:
        kind, _, encoded = value.partition(b" ")
        if name.lower() == b"authorization" and kind.lower() == b"basic":
            try:
                user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                return "", ""  # a wrong password of nobody
            return (user, password) if colon else ("", "")
    return None


async def _refuse(send: Any, refused: HTTPException) -> None:
    body = json.dumps({"detail": refused.detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in (refused.headers or {}).items()]
    await send({"type": "http.response.start", "status": refused.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})

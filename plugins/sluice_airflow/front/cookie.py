"""The cookie of a login: no script can read it, and nobody but its owner's programs can use it.

Airflow reads and writes a token in the cookie `_token`. A browser sends cookies to every port of a host, so
another user of this machine who gets somebody to open a page of his would get that token. So what the
browser keeps is sealed: encrypted, and bound to the user of this machine who logged in. Whoever else sends
it has sent nothing. Seals are put on and broken here, so that Airflow sees what it expects.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.configuration import conf
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sluice_airflow.front.access_rules import LOG_INS
from sluice_airflow.front.head import RequestHead
from sluice_airflow.front.refused import Headers

NAMES = (COOKIE_NAME_JWT_TOKEN, f"__Host-{COOKIE_NAME_JWT_TOKEN}")  # without TLS, and with it
NONCE_BYTES = 12
DOTS = 2  # of a token
CREATED = 201
#: What a page's script gets instead of the token that it would make a cookie of.
KEPT = "kept in a cookie that scripts cannot read"


def seal(token: str, source: str) -> str:
    """The token as the browser of this source keeps it."""
    nonce = os.urandom(NONCE_BYTES)
    sealed = _cipher().encrypt(nonce, token.encode(), source.encode())
    return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")


def unseal(value: str, source: str) -> str | None:
    """The token; None if it was not sealed here for this source."""
    try:
        raw = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
        return _cipher().decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], source.encode()).decode()
    except (InvalidTag, ValueError, binascii.Error):
        return None


def _cipher() -> AESGCM:
    secret = str(conf.get("api", "secret_key")).encode()
    return AESGCM(hmac.digest(secret, b"the cookie of a login", "sha256"))


@dataclass(frozen=True)
class Cookie:
    """The cookie of one request and its answer. source: who sent the request."""

    head: RequestHead
    source: str

    @property
    def name(self) -> str:
        """With TLS, a name that a browser takes from this very server alone, over TLS."""
        return NAMES[self.head.secure]

    def token(self) -> str:
        """The token that the request's cookie holds; empty without one.

        Another port of this host may have put a cookie of the same name beside it.
        """
        values = [value for name, value in self._given() if name == self.name]
        for value in values:
            if token := unseal(value, self.source):
                return token
        # A program may send a token as Airflow's documents say. A browser gets a seal, and what has none was
        # put there by another page of this host.
        if "sec-fetch-site" in self.head.headers:
            return ""
        return next((value for value in values if value.count(".") == DOTS), "")

    def incoming(self, headers: Headers, token: str) -> Headers:
        """The request's headers with the token in the cookie that Airflow reads."""
        kept = [pair for pair in self._given() if pair[0] not in NAMES]
        kept += [(COOKIE_NAME_JWT_TOKEN, token)] if token else []
        # The token is taken out of what answers a log-in, so that must not be compressed.
        left_out = {b"cookie", b"accept-encoding"} if self._logs_in() else {b"cookie"}
        rest = [pair for pair in headers if pair[0].lower() not in left_out]
        joined = "; ".join(f"{name}={value}" for name, value in kept)
        return [*rest, (b"cookie", joined.encode("latin-1"))] if kept else rest

    def outgoing(self, headers: Headers) -> Headers:
        """The answer's headers with every cookie of the login sealed."""
        return [
            (name, self._rewritten(value) if name.lower() == b"set-cookie" else value)
            for name, value in headers
        ]

    def set(self, token: str) -> tuple[bytes, bytes]:
        """The header that keeps the token in the browser until it is closed; without a token, none."""
        value = seal(token, self.source) if token else ""
        parts = [f"{self.name}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
        parts += ["Secure"] if self.head.secure else []
        parts += [] if token else ["Max-Age=0"]
        return b"set-cookie", "; ".join(parts).encode()

    def sending(self, send: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`send`, with the answer's cookies sealed; a page that logs in gets the cookie from here."""
        logs_in = self._logs_in()
        started: list[Any] = []

        async def sealing(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self.outgoing(list(message.get("headers", [])))}
                if logs_in and message["status"] == CREATED:
                    started.append({"start": message, "body": b""})
                    return
            elif started and message["type"] == "http.response.body":
                started[0]["body"] += message.get("body", b"")
                if message.get("more_body"):
                    return
                start, message = self._logged_in(**started.pop())
                await send(start)
            await send(message)

        return sealing

    def _logs_in(self) -> bool:
        return self.head.path in LOG_INS and self.head.from_browser

    def _logged_in(self, start: Any, body: bytes) -> tuple[Any, Any]:
        """Move the token from the body, where a script would read it, to the cookie."""
        given = json.loads(body)
        token, given["access_token"] = given["access_token"], KEPT
        body = json.dumps(given).encode()
        headers = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
        headers += [(b"content-length", b"%d" % len(body)), self.set(token)]
        return {**start, "headers": headers}, {"type": "http.response.body", "body": body}

    def _rewritten(self, raw: bytes) -> bytes:
        name, _, rest = raw.decode("latin-1").partition("=")
        if name.strip() != COOKIE_NAME_JWT_TOKEN:
            return raw
        return self.set(rest.partition(";")[0].strip().strip('"'))[1]

    def _given(self) -> list[tuple[str, str]]:
        """The cookies as they came."""
        parts = (part.strip().partition("=") for part in self.head.headers.get("cookie", "").split(";"))
        return [(name.strip(), value.strip()) for name, equals, value in parts if equals]

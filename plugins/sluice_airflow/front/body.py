"""Reads a request's body before anything parses it: how large, how fast, of what kind, how deep."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from sluice_airflow.front import access_rules
from sluice_airflow.front.head import RequestHead
from sluice_airflow.front.refused import BAD, SLOW, TOO_LARGE, UNPROCESSABLE, UNSUPPORTED, RequestRefused

SECONDS = 30.0
MOST_DEPTH = 64
_FORM = re.compile(r"application/x-www-form-urlencoded\s*(;|$)", re.IGNORECASE)
_JSON = re.compile(r"application/([\w.-]+\+)?json\s*(;|$)", re.IGNORECASE)
#: A text, to the body's end if it has none of its own, so that no byte is read twice; or a bracket.
_TOKENS = re.compile(rb'"(?:[^"\\]+|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


class ClientGone(Exception):
    """The client went away before its body was whole."""


async def read(head: RequestHead, receive: Any) -> bytes:
    """The whole body. Raises RequestRefused, or ClientGone."""
    most = access_rules.most(head)
    length = head.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise RequestRefused(BAD, f"Content-Length: {length[:20]!r} is no number of bytes")
    if head.headers.get("content-encoding", "identity") != "identity":
        raise RequestRefused(UNSUPPORTED, "the body must not be compressed: leave out Content-Encoding")
    if int(length[:20]) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(SECONDS):
            return await _whole(receive, most)
    except TimeoutError:
        raise RequestRefused(SLOW, f"the body did not come within {SECONDS:.0f} s: send it faster") from None


async def _whole(receive: Any, most: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(TOO_LARGE, f"the body is over {most} bytes: send less at once")


def check(head: RequestHead, body: bytes) -> None:
    """Raises RequestRefused for a body of a kind that is not taken here, or that no parser should see."""
    kind = head.headers.get("content-type", "")
    if not body:
        return
    if _FORM.match(kind) and _takes_forms(head):
        return
    if not _JSON.match(kind):
        raise RequestRefused(
            UNSUPPORTED, "the body must be JSON, with the header Content-Type: application/json"
        )
    if b"\0" in body:
        raise RequestRefused(BAD, "the body must be JSON in UTF-8, and it holds a NUL byte")
    if deeper(body, MOST_DEPTH):
        raise RequestRefused(UNPROCESSABLE, f"the body's JSON is nested over {MOST_DEPTH} deep: nest less")
    if head.path in access_rules.LOG_INS:
        _check_login(body)


def _takes_forms(head: RequestHead) -> bool:
    """A form of another site needs no leave of the browser to be sent, so its page must be named."""
    return head.path == "/auth/token" or (
        head.path.startswith(access_rules.CONSOLE) and "origin" in head.headers
    )


def deeper(body: bytes, most: int) -> bool:
    """Whether brackets are nested more than `most` deep. Parsers recurse as deep as a body is nested."""
    depth = 0
    for token in _TOKENS.finditer(body):
        first = body[token.start()]
        depth += 1 if first in b"[{" else -1 if first in b"]}" else 0
        if depth > most:
            return True
    return False


def _check_login(body: bytes) -> None:
    """Raises RequestRefused if this is no object of texts, on which Airflow's log-in would fail."""
    try:
        given = json.loads(body)
        whole = isinstance(given, dict) and all(isinstance(each, str) for each in given.values())
        if whole:
            "".join(given.values()).encode()  # half a surrogate pair has no bytes
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        raise RequestRefused(
            UNPROCESSABLE, 'the body must be JSON such as {"username": "ann", "password": "..."}'
        )

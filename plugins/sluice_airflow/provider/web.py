"""Asks an identity provider over HTTP: named hosts alone, within SECONDS, and for at most MOST_BYTES."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from sluice.runtime.login_settings import Oidc, Target
from sluice.runtime.settings import Settings
from sluice.stack.networking import outward
from sluice_airflow.provider.refusal import ProviderAway

#: For one request and its whole answer, however slowly that comes.
SECONDS = 10.0
MOST_BYTES = 1 << 20
OK = 200


class Web:
    """The provider's hosts. No redirect is followed, no proxy of the environment used."""

    def __init__(self, settings: Settings, oidc: Oidc) -> None:
        self._settings, self._targets = settings, oidc.targets
        self._ca = oidc.ca or None
        self._plain = oidc.issuer.startswith("http:")  # the settings allow that on this machine alone

    async def get(self, url: str) -> dict[str, Any]:
        """The JSON object at that address. Raises ProviderAway."""
        status, body = await self._ask("GET", url)
        if status != OK:
            raise ProviderAway(f"{url} answered with status {status}")
        return body

    async def post(
        self, url: str, form: Mapping[str, str], auth: httpx.BasicAuth | None
    ) -> tuple[int, dict[str, Any]]:
        """The status and the JSON object with which that address answers a form. Raises ProviderAway."""
        return await self._ask("POST", url, data=form, auth=auth)

    def allows(self, url: str) -> bool:
        """Whether the address is one of the provider's hosts, over TLS."""
        target = _target(url)
        schemes = ("https", "http") if self._plain else ("https",)
        return target in self._targets and urlsplit(url).scheme in schemes

    async def _ask(self, method: str, url: str, **more: Any) -> tuple[int, dict[str, Any]]:
        target = _target(url)
        if target is None or not self.allows(url):
            raise ProviderAway(
                f"{url!r} is on a host that the settings do not name: add it to login.oidc.hosts, if it is "
                "the provider's"
            )
        way = outward.way(self._settings, target)
        try:
            async with asyncio.timeout(SECONDS):
                trusted = await asyncio.to_thread(_trusted, self._ca)
                there = httpx.AsyncHTTPTransport(
                    verify=trusted, uds=str(way) if way else None, trust_env=False
                )
                async with (
                    httpx.AsyncClient(transport=there, timeout=SECONDS, trust_env=False) as http,
                    http.stream(method, url, headers={"Accept-Encoding": "identity"}, **more) as answer,
                ):
                    return answer.status_code, _object(url, await _bounded(url, answer))
        except TimeoutError:
            raise ProviderAway(f"{url} did not answer within {SECONDS:.0f} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise ProviderAway(f"{url}: {type(error).__name__}: {error}") from None


@functools.cache
def _trusted(ca: str | None) -> ssl.SSLContext:
    """How certificates are checked: by that file, or by the authorities of this machine."""
    return ssl.create_default_context(cafile=ca)


async def _bounded(url: str, answer: httpx.Response) -> bytes:
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise ProviderAway(f"{url} answered with a compressed body, for which nobody asked")
    body = bytearray()
    async for chunk in answer.aiter_raw():
        body += chunk
        if len(body) > MOST_BYTES:
            raise ProviderAway(f"{url} answered with more than {MOST_BYTES} bytes")
    return bytes(body)


def _object(url: str, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProviderAway(f"{url} answered with something that is no JSON object")
    return found


def _target(url: str) -> Target | None:
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.hostname, port) if parts.hostname and not parts.username else None

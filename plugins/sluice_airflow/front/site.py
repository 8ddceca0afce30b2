"""Whose page sent a request: only this server's own pages may use a login that the browser keeps.

A browser sends the login's cookie with every page's requests, and says whose page it was: in `Origin`, and
in `Sec-Fetch-Site`, for which another port of this machine is another site, or at least no longer this one.
Programs send neither.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from sluice_airflow.front import access_rules
from sluice_airflow.front.head import SAFE, RequestHead
from sluice_airflow.front.refused import FORBIDDEN, RequestRefused

_PORTS = {"http": 80, "https": 443}
_OWN = frozenset({"same-origin", "none"})  # none: a person typed the address
Place = tuple[str, str, int]


def check(head: RequestHead, *, by_cookie: bool) -> None:
    """Raises RequestRefused if another site's page sent it, and it does more than show one of ours."""
    origin, site = head.headers.get("origin"), head.headers.get("sec-fetch-site")
    if origin is not None and not _same(origin, head):
        raise RequestRefused(
            FORBIDDEN,
            f"origin {origin!r} may not do this: use the pages of this server. If {origin!r} is its address, "
            "set SLUICE_AIRFLOW__URL to it",
        )
    if site is not None and site not in _OWN and not _shown(head):
        raise RequestRefused(FORBIDDEN, "another site's page may not do this: use the pages of this server")
    if head.method not in SAFE and by_cookie and origin is None and site is None:
        raise RequestRefused(
            FORBIDDEN,
            "a request that changes something by the cookie of a login must name its Origin. Programs send "
            "the token as `Authorization: Bearer ...`",
        )


def led_here(head: RequestHead) -> bool:
    """Whether a person followed a link on another site to one of our pages."""
    return head.headers.get("sec-fetch-site", "none") not in _OWN and _shown(head)


def _shown(head: RequestHead) -> bool:
    """Whether the browser asks for a page of ours to show it by itself, in no frame."""
    alone = (head.headers.get("sec-fetch-mode"), head.headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    return head.method in SAFE and alone and access_rules.page(head.path)


def _same(origin: str, head: RequestHead) -> bool:
    place, own = _place(origin), _place(head.own)
    addressed = _place(f"{head.scheme}://{head.headers.get('host', '')}")
    return place is not None and (place == own or (place == addressed and _ours(place[1], own)))


def _ours(host: str, own: Place | None) -> bool:
    """Whether the name can be this machine's only: one of the internet may be pointed at it by anybody."""
    if host in {"localhost", socket.gethostname(), own[1] if own else ""}:
        return True
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def _place(url: str) -> Place | None:
    """Scheme, host and port; None where there are none, as for the origin "null"."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname and port else None

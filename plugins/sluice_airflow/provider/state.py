"""What this server must remember of a person between going to the provider and coming back.

The browser keeps it, in a cookie that lasts minutes: encrypted, and bound to the user of this machine whose
browser it is, as the login's own cookie is. It must come back with the answer (`SameSite=Lax`), and each
state ends one log-in.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit

from airflow.models.revoked_token import RevokedToken
from airflow.utils.session import create_session
from sqlalchemy.exc import IntegrityError

from sluice.runtime.origin import origin
from sluice_airflow.front.cookie import seal, unseal
from sluice_airflow.provider.refusal import ProviderRefusal

#: A person has this many seconds to log in there.
SECONDS = 600
COOKIE = "_log_in"
_ADDRESS_BYTES = 1024
#: Sealed for this and nothing else, so that it is no login.
_PURPOSE = "a log-in that began: "


@dataclass(frozen=True)
class BegunLogIn:
    """A log-in that began here. next: where the person wanted to go."""

    state: str
    nonce: str
    verifier: str
    next: str
    at: int

    @classmethod
    def now(cls, following: str) -> BegunLogIn:
        state, nonce, verifier = secrets.token_hex(16), secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        return cls(state, nonce, verifier, following, int(time.time()))


def name(own: str) -> str:
    """The cookie's; with TLS, one that a browser takes from this very server alone."""
    return f"__Host-{COOKIE}" if own.startswith("https:") else COOKIE


def kept(begun: BegunLogIn) -> str:
    """The cookie's value."""
    return seal(json.dumps(dataclasses.asdict(begun)), _bound_to())


def returned(cookies: str, own: str, state: str) -> BegunLogIn:
    """What began in this browser, if the state is that of the answer. Raises ProviderRefusal.

    cookies: the request's header. Another port of this host may have put one of the same name beside ours.
    """
    pairs = (part.strip().partition("=") for part in cookies.split(";"))
    texts = (unseal(value, _bound_to()) for each, _, value in pairs if each == name(own) and value)
    found = (BegunLogIn(**json.loads(text)) for text in texts if text)
    begun = next((each for each in found if hmac.compare_digest(each.state.encode(), state.encode())), None)
    if begun is None:
        raise ProviderRefusal(
            "this log-in did not begin in this browser, or not at this address, or another one began since: "
            f"log in at {own}"
        )
    if begun.at + SECONDS < time.time():
        raise ProviderRefusal(f"this log-in began more than {SECONDS // 60} minutes ago: log in again")
    return begun


def use(begun: BegunLogIn) -> None:
    """Let nobody end this log-in again. Raises ProviderRefusal if somebody did."""
    until = datetime.fromtimestamp(begun.at + 2 * SECONDS, UTC)
    try:
        with create_session() as session:
            session.add(RevokedToken(jti=begun.state, exp=until))
    except IntegrityError:
        raise ProviderRefusal("this log-in has ended already: log in again") from None


def following(given: str, own: str) -> str:
    """A path of this server to go to after the log-in: `given` if it is one, else the first page."""
    if len(given) > _ADDRESS_BYTES or "\\" in given or not given.isprintable() or " " in given:
        return "/"
    try:
        parts, ours = urlsplit(given), urlsplit(own)
    except ValueError:
        return "/"
    if (parts.scheme, parts.netloc) not in (("", ""), (ours.scheme, ours.netloc)):
        return "/"
    below = parts.path.removeprefix(ours.path.rstrip("/"))
    path = urlunsplit(("", "", below, parts.query, parts.fragment))
    return path if path.startswith("/") and not path.startswith("//") else "/"


def _bound_to() -> str:
    """The user of this machine; for other machines, whose addresses change, one word."""
    source = origin()
    return _PURPOSE + (source if source.startswith("uid:") else "elsewhere")

"""OpenID Connect: where a person is sent, and what the provider says of the person who comes back.

The authorization code flow with PKCE. docs/decisions/0070-log-ins.md says what is checked where.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from sluice.runtime.login_settings import Oidc, secret_in
from sluice.runtime.settings import Settings
from sluice_airflow.provider import id_token
from sluice_airflow.provider.refusal import ProviderAway, ProviderRefusal
from sluice_airflow.provider.state import BegunLogIn
from sluice_airflow.provider.web import OK, Web

DISCOVERY = "/.well-known/openid-configuration"
#: What discovery said is used for KEPT_SECONDS.
KEPT_SECONDS = 600.0
#: Where people are sent back to, below Airflow's address: the provider must know it as redirect URI.
RETURN = "/auth/provider/return"


@dataclass(frozen=True)
class Provider:
    """What the provider says of itself."""

    authorization: str
    token: str
    keys: str
    by_basic: bool  # how it takes the client's secret: in a header, else in the form
    names_itself: bool  # whether answers name the issuer (RFC 9207)


_found: dict[str, tuple[float, Provider]] = {}  # by issuer: one, as the settings have it


async def discovered(settings: Settings, oidc: Oidc) -> Provider:
    """What the provider says of itself. Raises ProviderAway."""
    at, known = _found.get(oidc.issuer, (0.0, None))
    if known is None or time.monotonic() - at > KEPT_SECONDS:
        web = Web(settings, oidc)
        known = _read(await web.get(oidc.issuer.rstrip("/") + DISCOVERY), oidc, web)
        _found[oidc.issuer] = time.monotonic(), known
    return known


def _read(document: dict[str, Any], oidc: Oidc, web: Web) -> Provider:
    if document.get("issuer") != oidc.issuer:
        raise ProviderAway(
            f"{oidc.issuer} calls itself {_short(document.get('issuer'))}: set login.oidc.issuer to that, if "
            "it is right"
        )
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        if not web.allows(str(document.get(name, ""))):
            raise ProviderAway(
                f"{oidc.issuer}: its {name} is {_short(document.get(name))}, on a host that the settings do "
                "not name, or without TLS: add the host to login.oidc.hosts, if it is the provider's"
            )
    methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    return Provider(
        authorization=str(document["authorization_endpoint"]),
        token=str(document["token_endpoint"]),
        keys=str(document["jwks_uri"]),
        by_basic="client_secret_basic" in methods,
        names_itself=bool(document.get("authorization_response_iss_parameter_supported")),
    )


def _short(said: object) -> str:
    return repr(str(said)[:200])


def redirect_uri(settings: Settings) -> str:
    """Where the provider sends people back to: by the settings, whatever a request says."""
    return settings.airflow.url.rstrip("/") + RETURN


def address(settings: Settings, oidc: Oidc, provider: Provider, begun: BegunLogIn) -> str:
    """Where the person logs in."""
    from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
    from authlib.oauth2.rfc7636 import create_s256_code_challenge

    return str(
        prepare_grant_uri(
            provider.authorization,
            client_id=oidc.client_id,
            response_type="code",
            redirect_uri=redirect_uri(settings),
            scope=list(oidc.scopes),
            state=begun.state,
            nonce=begun.nonce,
            code_challenge=create_s256_code_challenge(begun.verifier),
            code_challenge_method="S256",
        )
    )


async def claims(settings: Settings, oidc: Oidc, begun: BegunLogIn, answer: dict[str, str]) -> dict[str, Any]:
    """What the provider says of the person; answer: what came back with the person, by name.

    Raises ProviderRefusal, ProviderAway, SecretUnusable.
    """
    provider = await discovered(settings, oidc)
    if ("iss" in answer or provider.names_itself) and answer.get("iss") != oidc.issuer:
        raise ProviderRefusal("another identity provider answered than the one that was asked: log in again")
    if "error" in answer:
        raise ProviderRefusal(f"the identity provider let nobody in: {answer['error'][:100]}")
    if not answer.get("code"):
        raise ProviderRefusal("the identity provider sent no code: log in again")
    web = Web(settings, oidc)
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "redirect_uri": redirect_uri(settings),
        "code_verifier": begun.verifier,
        "client_id": oidc.client_id,
    }
    auth = None
    if oidc.client_secret_file:
        secret = secret_in(settings.home, oidc.client_secret_file)
        if provider.by_basic:
            auth = httpx.BasicAuth(quote(oidc.client_id, safe=""), quote(secret, safe=""))
        else:
            form["client_secret"] = secret
    status, said = await web.post(provider.token, form, auth)
    if status != OK:
        raise ProviderRefusal(
            f"the identity provider took the code for nothing ({str(said.get('error'))[:100]}): log in again"
        )
    return id_token.check(said.get("id_token", ""), await web.get(provider.keys), oidc, begun.nonce)

"""Checks an ID token: who signed it, for whom, when, and for which log-in."""

from __future__ import annotations

from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from sluice.runtime.login_settings import Oidc
from sluice_airflow.provider.refusal import ProviderRefusal

#: Signatures by a private key alone: `none` has none, and the key of HS256 would be one that others have.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_KEY_TYPES = ("RSA", "EC", "OKP")
LEEWAY_SECONDS = 60


def check(token: object, keys: dict[str, Any], oidc: Oidc, nonce: str) -> dict[str, Any]:
    """The token's claims. keys: the provider's, as a JSON Web Key Set. Raises ProviderRefusal."""
    from authlib.oidc.core import CodeIDToken

    try:
        known = KeySet.import_key_set({"keys": _for_signatures(keys)})
        decoded = jwt.decode(str(token), known, algorithms=ALGORITHMS)
        claims = CodeIDToken(
            decoded.claims,
            decoded.header,
            options={
                "iss": {"essential": True, "value": oidc.issuer},
                "aud": {"essential": True, "value": oidc.client_id},
                "sub": {"essential": True},
                "nonce": {"essential": True, "value": nonce},
            },
            params={"client_id": oidc.client_id, "nonce": nonce},
        )
        claims.validate(leeway=LEEWAY_SECONDS)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ProviderRefusal(f"the identity provider's ID token is not valid: {_why(error)}") from None
    return dict(claims)


def _for_signatures(keys: dict[str, Any]) -> list[dict[str, Any]]:
    found = keys.get("keys")
    listed = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [each for each in listed if each.get("kty") in _KEY_TYPES and each.get("use", "sig") == "sig"]


def _why(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__

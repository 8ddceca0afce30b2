"""Lets a person in whom a provider or a directory knows: by the name and the groups that it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.runtime.login_settings import Oidc, Role, role_of
from sluice.runtime.settings import Settings
from sluice.stack import journal
from sluice.stack.admitted import Admitted
from sluice.stack.users import User, UserError
from sluice_airflow.provider.refusal import ProviderRefusal

_SHOWN = 60


def of_claims(settings: Settings, oidc: Oidc, claims: Mapping[str, Any]) -> User:
    """The person of an ID token. Raises ProviderRefusal."""
    name = claims.get(oidc.name_claim)
    if not isinstance(name, str):
        raise ProviderRefusal(f"the identity provider sends no name: its ID token has no {oidc.name_claim!r}")
    if oidc.domain:
        name, _, domain = name.rpartition("@")
        if domain.casefold() != oidc.domain.casefold():
            raise ProviderRefusal(f"only names of {oidc.domain} may log in here")
    given = claims.get(oidc.groups_claim, [])
    groups = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    named = [each for each in groups if isinstance(each, str)]
    subject = f"{oidc.issuer} {claims['sub']}"
    return let_in(settings, "oidc", name, subject, role_of(oidc.roles, named))


def let_in(settings: Settings, origin: str, name: str, subject: str, role: Role | None) -> User:
    """The person, with that role from now on. Raises ProviderRefusal.

    Whoever has no role any more is logged out everywhere.
    """
    users = Admitted(settings)
    try:
        if role is None:
            if before := users.dismiss(name, origin, subject):
                _note(settings, name, "removed", before, "")
            raise ProviderRefusal(
                f"{name[:_SHOWN]!r} is in no group that has a role here: ask whoever runs the platform"
            )
        user, before = users.admit(name, role, origin, subject)
    except UserError as error:
        raise ProviderRefusal(str(error)) from None
    if before != role:
        _note(settings, name, "role" if before else f"added by {origin}", before, role)
    return user


def _note(settings: Settings, name: str, action: str, before: str, after: str) -> None:
    journal.note(settings, who=name, what="user", name=name, action=action, before=before, after=after)

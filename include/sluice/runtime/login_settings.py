"""Who else may log in: the settings of an identity provider (OpenID Connect) and of a directory (LDAP).

Neither is asked unless it is set. Both map groups to roles: who is in no group that is named does not get in.
"""

from __future__ import annotations

import ipaddress
import re
import stat
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, Field, field_validator, model_validator

Role = Literal["viewer", "user", "op", "admin"]
#: From the least to the most; who is in groups of several roles gets the last of them.
ROLES: tuple[Role, ...] = ("viewer", "user", "op", "admin")
Groups = Annotated[dict[Role, tuple[str, ...]], Field(min_length=1)]
USER, DN = "{user}", "{dn}"
_PORTS = {"https": 443, "http": 80, "ldaps": 636, "ldap": 389}
Target = tuple[str, int]  # host and port


class SecretUnusable(RuntimeError):
    """A file that is to hold a secret cannot be used; the message says why."""


class Oidc(BaseModel, frozen=True, extra="forbid"):
    """An identity provider that speaks OpenID Connect."""

    issuer: str  # as the provider writes it, without the /.well-known/... part
    client_id: str = Field(min_length=1)
    client_secret_file: str = ""  # empty: a public client, which has PKCE alone
    label: str = Field("single sign-on", min_length=1, max_length=40)  # of the button: Log in with ...
    scopes: tuple[str, ...] = ("openid", "profile")
    name_claim: str = "preferred_username"
    domain: str = ""  # "example.org": ann@example.org is ann, and a name of another domain is refused
    groups_claim: str = "groups"
    hosts: tuple[str, ...] = ()  # HOST or HOST:PORT that the provider uses beside the issuer's
    ca: str = ""  # a file in PEM; empty: the authorities that this machine trusts
    roles: Groups

    @field_validator("issuer")
    @classmethod
    def _check_issuer(cls, issuer: str) -> str:
        parts = _parts(issuer)
        if not parts.hostname or parts.query or parts.fragment or not _is_safe(parts.scheme, parts.hostname):
            raise ValueError(f"{issuer!r}: give an address that begins with https://, without '?' and '#'")
        return issuer

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if "/" in host or "@" in host or not _parts(f"//{host}").hostname:
                raise ValueError(f"{host!r}: give HOST or HOST:PORT")
        return hosts

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError(f"{list(scopes)}: add 'openid', without which there is no ID token")
        return scopes

    @property
    def targets(self) -> tuple[Target, ...]:
        """Where the platform may connect to; nothing that the provider names leads elsewhere."""
        parts = urlsplit(self.issuer)
        others = [urlsplit(f"//{host}") for host in self.hosts]
        found = [(str(parts.hostname), parts.port or _PORTS[parts.scheme])]
        found += [(str(each.hostname), each.port or _PORTS["https"]) for each in others]
        return tuple(dict.fromkeys(found))


class Ldap(BaseModel, frozen=True, extra="forbid"):
    """A directory that is asked by LDAP: it finds the person, and the person's password opens it."""

    url: str  # ldaps://HOST[:PORT], or ldap:// with `starttls`
    starttls: bool = False
    bind_dn: str = ""  # who searches; empty: nobody in particular
    bind_password_file: str = ""
    user_base: str = Field(min_length=1)
    user_filter: str = "(uid={user})"
    group_base: str = ""  # where groups are; empty: the person's `group_attribute` names them
    group_filter: str = "(member={dn})"
    group_attribute: str = ""  # memberOf of the person; with `group_base`: cn of the group
    ca: str = ""
    roles: Groups

    @model_validator(mode="after")
    def _check(self) -> Ldap:
        parts = _parts(self.url)
        if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"url: {self.url!r}: give ldaps://HOST or ldap://HOST, with a port if need be")
        if parts.scheme == "ldap" and not self.starttls and not _is_loopback(parts.hostname):
            raise ValueError(
                f"url: {self.url!r} would send passwords in clear text: give ldaps://, or add starttls: true"
            )
        if USER not in self.user_filter:
            raise ValueError(f"user_filter: {self.user_filter!r} must hold {USER}, where the name goes")
        if self.group_base and not re.search(r"\{(user|dn)\}", self.group_filter):
            raise ValueError(f"group_filter: {self.group_filter!r} must hold {DN} or {USER}")
        if bool(self.bind_dn) != bool(self.bind_password_file):
            raise ValueError("bind_dn: it needs bind_password_file, and the file needs it: give both or none")
        return self

    @property
    def names_of_groups(self) -> str:
        """The attribute that holds the names of groups."""
        return self.group_attribute or ("cn" if self.group_base else "memberOf")

    @property
    def target(self) -> Target:
        """Where the platform connects to."""
        parts = urlsplit(self.url)
        return str(parts.hostname), parts.port or _PORTS[parts.scheme]


class Login(BaseModel, frozen=True, extra="forbid"):
    """Who else may log in beside the instance's own users."""

    oidc: Oidc | None = None
    ldap: Ldap | None = None

    @property
    def targets(self) -> tuple[Target, ...]:
        """Where log-ins connect to."""
        found = [*(self.oidc.targets if self.oidc else ()), *([self.ldap.target] if self.ldap else [])]
        return tuple(dict.fromkeys(found))

    @property
    def origins(self) -> tuple[str, ...]:
        """The names of what is set, as `stack.users` has them."""
        return tuple(name for name in ("oidc", "ldap") if getattr(self, name))


def role_of(roles: dict[Role, tuple[str, ...]], groups: list[str]) -> Role | None:
    """The highest role that a group has; None if none has any."""
    mine = {each.casefold() for each in groups}
    found = [role for role in ROLES if any(each.casefold() in mine for each in roles.get(role, ()))]
    return found[-1] if found else None


def secret_in(home: Path, name: str) -> str:
    """What a secret's file holds; a relative name is one of the instance's secrets. Raises SecretUnusable."""
    path = home / "secrets" / name  # an absolute name stays what it is
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SecretUnusable(f"{path}: other users may read it. Let nobody else: chmod 600 {path}")
        secret = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnusable(f"{path}: it cannot be read ({error}). Write the secret into it") from None
    if not secret:
        raise SecretUnusable(f"{path}: it is empty. Write the secret into it")
    return secret


def _parts(address: str) -> SplitResult:
    """Raises ValueError, also for a port that is none."""
    parts = urlsplit(address)
    if parts.port == 0:
        raise ValueError(f"{address!r}: 0 is no port")
    return parts


def _is_safe(scheme: str, host: str) -> bool:
    return scheme == "https" or (scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

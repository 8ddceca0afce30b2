"""How to log in to a host: as hosts.yaml says, or as an Airflow connection of the type ssh says.

The fields are those that apache-airflow-providers-ssh documents. What Sluice does not do is refused, because
whoever asks for it would believe that it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
from pydantic import ValidationError

from sluice.collection.errors import AgentError
from sluice.runtime.settings import Settings
from sluice_hosts.hosts import Host, Ssh, unreachable

CONN_TYPE = "ssh"
_PINNED = "the host's key is pinned by `sluice hosts enrol`, and no other is accepted; remove it"
_ENCRYPTED = "give the key without a passphrase, because Airflow encrypts the connection; remove it"
_KEYS = "Sluice looks for no key; remove it, and give private_key or key_file"
#: Extras of the provider that are not supported, and what to do instead.
_REFUSED = {
    "no_host_key_check": _PINNED,
    "allow_host_key_change": _PINNED,
    "ignore_hostkey_verification": _PINNED,
    "known_hosts": _PINNED,
    "private_key_passphrase": _ENCRYPTED,
    "passphrase": _ENCRYPTED,
    "look_for_keys": _KEYS,
}
_TAKEN = ("private_key", "key_file", "host_key")


class LoginError(AgentError):
    """An Airflow connection does not say how to log in to a host."""


@dataclass(frozen=True)
class SshLogin:
    """Where and as whom to log in, and with which private key: by default one that is made for the host.

    connection: the id of the Airflow connection that says so; empty if hosts.yaml does. host_key: the key
    that the host must show (as in known_hosts), if the connection names one.
    """

    address: str
    port: int
    user: str
    key_file: str = ""
    private_key: str = field(default="", repr=False)
    host_key: str = ""
    connection: str = ""

    @property
    def said_by(self) -> str:
        """Where a person changes it."""
        return f"the connection {self.connection} in Airflow" if self.connection else "hosts.yaml"


def of_file(host: Host, ssh: Ssh) -> SshLogin:
    """As hosts.yaml says."""
    key_file = str(ssh.key_file.expanduser()) if ssh.key_file else ""
    return SshLogin(host.address, ssh.port, ssh.user, key_file)


def of_connection(settings: Settings, host: Host, fields: Mapping[str, Any]) -> SshLogin:
    """As the host's connection says.

    fields: by their names in Airflow's JSON; ``extra`` may be JSON text. Raises LoginError with everything
    that is wrong, without the values of secrets.
    """
    problems: list[str] = []
    extra = _extra(fields.get("extra"), problems)
    address = str(fields.get("host") or host.address)
    problems += _plain_problems(fields, address, settings.private)
    account = _account(fields, problems)
    problems += _extra_problems(extra)
    host_key = _host_key(extra.get("host_key", ""), problems)
    if problems or account is None:
        raise LoginError(f"host {host.name}: connection {host.connection}: " + "; ".join(problems))
    key_file = str(Path(extra["key_file"]).expanduser()) if "key_file" in extra else ""
    private_key = extra.get("private_key", "")
    return SshLogin(
        address, account.port, account.user, key_file, private_key, host_key, host.connection or ""
    )


def algorithms(host_key: str) -> list[str]:
    """How a host proves that it has the key: it may have others, and shows one of those asked for."""
    return [each.decode() for each in asyncssh.import_public_key(host_key).sig_algorithms]


def _extra(given: Any, problems: list[str]) -> dict[str, str]:
    """The extra fields that are given: one that is empty or false asks for nothing."""
    try:
        found = json.loads(given or "{}") if isinstance(given, str | None) else given
        items = dict(found).items()
    except (TypeError, ValueError):
        problems.append("extra: no JSON object; write {...}")
        return {}
    return {str(name): str(value) for name, value in items if str(value).lower() not in ("", "none", "false")}


def _plain_problems(fields: Mapping[str, Any], address: str, private: bool) -> Iterator[str]:
    if (kind := fields.get("conn_type")) != CONN_TYPE:
        yield f"conn_type = {kind!r}: no SSH connection; give it the type ssh"
    if said := unreachable(address, private):
        yield f"host = {address[:80]!r}: {said}"
    if fields.get("password"):
        yield (
            "password: Sluice logs in with a key only; delete the connection, and make it again without one, "
            "with private_key or key_file (Airflow keeps a password that is emptied)"
        )


def _account(fields: Mapping[str, Any], problems: list[str]) -> Ssh | None:
    """The account and the port."""
    if not fields.get("login"):
        problems.append("login: missing; add the account to log in to")
        return None
    port = {"port": fields["port"]} if fields.get("port") else {}
    try:
        return Ssh.model_validate({"user": fields["login"], **port})
    except ValidationError as error:
        for each in error.errors():
            name = "login" if each["loc"][0] == "user" else each["loc"][0]
            problems.append(f"{name} = {str(each['input'])[:80]!r}: {each['msg']}; correct it")
        return None


def _extra_problems(extra: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(extra.keys() - set(_TAKEN)):
        yield f"extra.{name}: {_REFUSED.get(name, 'Sluice does not support it; remove it')}"
    if "private_key" in extra and "key_file" in extra:
        yield "extra.key_file: private_key is given, too; keep one of them"
    if "key_file" in extra and not Path(extra["key_file"]).expanduser().is_absolute():
        yield f"extra.key_file = {extra['key_file']!r}: give the whole path of a file on this machine"
    if "private_key" in extra:
        try:
            asyncssh.import_private_key(extra["private_key"])
        except asyncssh.KeyImportError as error:
            yield f"extra.private_key: cannot be used ({error}): give a private key without a passphrase"


def _host_key(text: str, problems: list[str]) -> str:
    """The key as in known_hosts; without a type it is an RSA key, as the provider has it."""
    if not text:
        return ""
    try:
        key = asyncssh.import_public_key(text.strip() if " " in text.strip() else f"ssh-rsa {text.strip()}")
    except asyncssh.KeyImportError as error:
        problems.append(
            f"extra.host_key = {text[:80]!r}: {error}; give the type and the key, as a file "
            "/etc/ssh/ssh_host_*_key.pub of that machine has them"
        )
        return ""
    return " ".join(key.export_public_key("openssh").decode().split()[:2])

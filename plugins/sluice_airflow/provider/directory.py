"""LDAP: finds a person in a directory, and lets the person's password open it (search, then bind)."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ldap3
from ldap3.core.exceptions import LDAPException
from ldap3.core.results import RESULT_INVALID_CREDENTIALS, RESULT_SIZE_LIMIT_EXCEEDED, RESULT_SUCCESS
from ldap3.utils.conv import escape_filter_chars

from sluice.runtime.login_settings import DN, USER, Ldap, SecretUnusable, role_of, secret_in
from sluice.runtime.settings import Settings
from sluice.stack.networking import outward
from sluice.stack.users import NAME, User
from sluice_airflow.provider import people
from sluice_airflow.provider.refusal import ProviderAway

#: For each wait, and for a whole connection; a directory that sends slowly would outlast the former.
WAIT_SECONDS, SECONDS = 5, 10.0
MOST_BYTES = 1 << 20
_PASSWORD_CHARACTERS = 1024


def log_in(settings: Settings, ldap: Ldap, name: str, password: str) -> User | None:
    """The person of that name, if the password is right. Raises ProviderRefusal, ProviderAway.

    With no password a directory may let everybody in, as nobody in particular, so it is not asked; nor is it
    with a NUL, where some end a password.
    """
    if not NAME.fullmatch(name) or not 0 < len(password) <= _PASSWORD_CHARACTERS or "\0" in password:
        return None
    try:
        with _connected(settings, ldap) as searching:
            _bind_to_search(settings, ldap, searching)
            dn, groups = _found(ldap, searching, name)
            # Whoever is not there is tried, too, so that the time does not tell who is.
            opened = _opens(settings, ldap, dn or f"cn=nobody,{ldap.user_base}", password)
            if not (opened and dn):
                return None
    except (LDAPException, OSError, SecretUnusable) as error:
        raise ProviderAway(f"{ldap.url}: {type(error).__name__}: {error}") from None
    return people.let_in(settings, "ldap", name, dn, role_of(ldap.roles, groups))


def _bind_to_search(settings: Settings, ldap: Ldap, connection: Any) -> None:
    if not ldap.bind_dn:
        return
    if not _bound(connection, ldap.bind_dn, secret_in(settings.home, ldap.bind_password_file)):
        raise ProviderAway(f"{ldap.url}: bind_dn {ldap.bind_dn!r} and its password are refused")


def _opens(settings: Settings, ldap: Ldap, dn: str, password: str) -> bool:
    with _connected(settings, ldap) as own:
        return _bound(own, dn, password)


def _bound(connection: Any, dn: str, password: str) -> bool:
    """Raises ProviderAway for an answer that says neither that the password is right nor that it is wrong."""
    connection.user, connection.password, connection.authentication = dn, password, ldap3.SIMPLE
    if connection.bind():
        return True
    if connection.result["result"] != RESULT_INVALID_CREDENTIALS:
        said = {name: connection.result.get(name) for name in ("result", "description", "message")}
        raise ProviderAway(f"the directory refuses {dn!r}: {said}")
    return False


def _found(ldap: Ldap, connection: Any, name: str) -> tuple[str, list[str]]:
    """The person's DN, "" unless there is exactly one, and the names of the groups."""
    attribute = ldap.names_of_groups
    user_filter = ldap.user_filter.replace(USER, escape_filter_chars(name))
    entries = _search(connection, ldap.user_base, user_filter, attribute if not ldap.group_base else "1.1", 2)
    if len(entries) != 1:
        return "", []
    dn = str(entries[0]["dn"])
    if ldap.group_base:
        text = ldap.group_filter.replace(USER, escape_filter_chars(name))
        entries = _search(
            connection, ldap.group_base, text.replace(DN, escape_filter_chars(dn)), attribute, 0
        )
    return dn, [value for entry in entries for value in _texts(entry["attributes"].get(attribute, []))]


def _search(connection: Any, base: str, text: str, attribute: str, most: int) -> list[Any]:
    """The entries below the base; referrals to other directories are not among them."""
    connection.search(
        base, text, ldap3.SUBTREE, attributes=[attribute], size_limit=most, time_limit=WAIT_SECONDS
    )
    if connection.result["result"] not in (RESULT_SUCCESS, RESULT_SIZE_LIMIT_EXCEEDED):
        said = {name: connection.result.get(name) for name in ("result", "description", "message")}
        raise ProviderAway(f"the directory does not search {base!r} for {text!r}: {said}")
    return [each for each in connection.response or [] if each["type"] == "searchResEntry"]


def _texts(values: Any) -> list[str]:
    given = values if isinstance(values, list | tuple) else [values]
    return [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in given]


@contextlib.contextmanager
def _connected(settings: Settings, ldap: Ldap) -> Iterator[Any]:
    """A connection, over TLS unless it is one to this very machine; it is cut after SECONDS."""
    host, port = ldap.target
    way = outward.way(settings, ldap.target)
    server = _Server(
        host,
        port,
        mode=ldap3.IP_SYSTEM_DEFAULT if way else ldap3.IP_V6_PREFERRED,  # the others pass over unix sockets
        use_ssl=ldap.url.startswith("ldaps:"),
        tls=_Tls(ca_certs_file=ldap.ca or None),
        get_info=ldap3.NONE,
        connect_timeout=WAIT_SECONDS,
    )
    server.way = way
    connection = ldap3.Connection(
        server, auto_referrals=False, read_only=True, receive_timeout=WAIT_SECONDS, check_names=False
    )
    late = threading.Timer(SECONDS, lambda: _cut(connection))
    late.start()
    try:
        connection.open(read_server_info=False)
        if ldap.starttls and not connection.start_tls(read_server_info=False):
            raise ProviderAway(f"{ldap.url}: the directory does not start TLS")
        connection.socket = _Bounded(connection.socket)
        yield connection
    finally:
        late.cancel()
        with contextlib.suppress(LDAPException, OSError):
            connection.unbind()


def _cut(connection: Any) -> None:
    with contextlib.suppress(OSError, AttributeError):
        connection.socket.shutdown(socket.SHUT_RDWR)


class _Server(ldap3.Server):  # type: ignore[misc]
    """A server that may be reached by a unix socket, whatever its name, which TLS is to prove."""

    way: Path | None = None
    _address_info: Any

    @property
    def address_info(self) -> Any:
        if self.way is None:
            return super().address_info
        if not self._address_info:
            self._address_info = [[socket.AF_UNIX, socket.SOCK_STREAM, 0, "", str(self.way), None, None]]
        return self._address_info


class _Tls(ldap3.Tls):  # type: ignore[misc]
    """TLS as Python has it, which also checks that the certificate is made out to the server."""

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        trusted = ssl.create_default_context(cafile=self.ca_certs_file)
        connection.socket = trusted.wrap_socket(connection.socket, server_hostname=connection.server.host)


class _Bounded:
    """A socket from which at most MOST_BYTES are read."""

    def __init__(self, real: Any) -> None:
        self._real, self._left = real, MOST_BYTES

    def recv(self, size: int) -> bytes:
        data = bytes(self._real.recv(size))
        self._left -= len(data)
        if self._left < 0:
            raise OSError(f"it answered with more than {MOST_BYTES} bytes")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

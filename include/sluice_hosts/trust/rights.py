"""Kafka's users for other hosts, and their rights.

The user of a host with collectors may write to their topics, and describe them. That of a host with jobs may
read all topics, and be in Sluice's consumer groups. They may do nothing else. A password reaches Kafka salted
and hashed.

A user is never deleted. Kafka 4.3.1 forgets users when it starts again and has a deleted one in its log
(`ScramDelta.apply`: once the first change that it applies is a deletion, all others are lost).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError, NoError, SecurityDisabledError

from sluice.runtime.settings import Settings
from sluice.transmission import clients
from sluice_hosts.trust.broker import ALL, BrokerError, admitted, dismissed, granted, password, record, user

_WRITES = (ACLOperation.WRITE, ACLOperation.DESCRIBE)
_READS = (ACLOperation.READ, ACLOperation.DESCRIBE)
_GROUPS = ResourcePattern(ResourceType.GROUP, "sluice-", ACLResourcePatternType.PREFIXED)
_SCRAM = ScramMechanism.SCRAM_SHA_512
_REQUEST_MS = 10_000


def grant(settings: Settings, wanted: Mapping[str, set[str]]) -> list[str]:
    """Have Kafka know these hosts' users, with just these rights; returns the hosts that changed.

    wanted: by host, the topics to write to, and ALL to read. Nothing is asked while nothing changes. Raises
    BrokerError.
    """
    changed = [host for host, topics in wanted.items() if granted(settings, host) != topics]
    if changed:
        with _admin(settings) as admin:
            for host in changed:
                _give(admin, host, password(settings, host), wanted[host])
                gone = granted(settings, host) - wanted[host]
                _delete(admin, [each for topic in sorted(gone) for each in _filters(host, topic)])
                record(settings, host, wanted[host])
    return changed


def dismiss(settings: Settings, host: str) -> None:
    """Take the host's rights away, and give its user a password that nobody knows.

    Callers hold the deployment's lock, under which users are made. Raises BrokerError; then it may be
    repeated.
    """
    if host not in admitted(settings):
        return
    with _admin(settings) as admin:
        _delete(admin, [_filter(host, ResourceType.ANY, None)])
        _set_password(admin, host, secrets.token_urlsafe(32))
    dismissed(settings, host)


def unknown(settings: Settings) -> list[str]:
    """The hosts whose users were told to Kafka, and which it does not know. Raises BrokerError."""
    told = [host for host in admitted(settings) if granted(settings, host)]
    if not told:
        return []
    with _admin(settings) as admin:
        found = admin.describe_user_scram_credentials([user(host) for host in told])
    return [host for host in told if not found[user(host)]["credential_infos"]]


def _set_password(admin: KafkaAdminClient, host: str, password: str) -> None:
    _altered(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user(host), _SCRAM, password)]))


def _give(admin: KafkaAdminClient, host: str, password: str, topics: Iterable[str]) -> None:
    _set_password(admin, host, password)
    acls = [
        ACL(f"User:{user(host)}", "*", right, ACLPermissionType.ALLOW, what)
        for topic in sorted(topics)
        for what, right in _rights(topic)
    ]
    for error in admin.create_acls(acls)["failed"]:
        raise BrokerError(
            f"Kafka gives {user(host)} no rights ({error.__name__}): it began before the host was enrolled; "
            "run `sluice down` and `sluice up`"
        )


def _rights(topic: str) -> Iterator[tuple[ResourcePattern, ACLOperation]]:
    at = ResourcePattern(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL)
    yield from ((at, right) for right in (_READS if topic == ALL else _WRITES))
    if topic == ALL:
        yield from ((_GROUPS, right) for right in _READS)


@contextmanager
def _admin(settings: Settings) -> Iterator[KafkaAdminClient]:
    """Kafka's administration, by the listener of this machine."""
    try:
        client = KafkaAdminClient(
            **clients.options(settings.kafka),
            client_id="sluice-hosts",
            request_timeout_ms=_REQUEST_MS,
            bootstrap_timeout_ms=_REQUEST_MS,
        )
        with closing(client):
            yield client
    except KafkaError as error:
        raise BrokerError(
            f"Kafka at {settings.kafka.bootstrap} cannot be told of the hosts' users ({error}): see with "
            "`sluice status` whether it runs"
        ) from error


def _altered(said: dict[str, str | None]) -> None:
    for name, problem in said.items():
        if problem is not None:
            raise BrokerError(f"Kafka refuses to change its user {name}: {problem}")


def _delete(admin: KafkaAdminClient, filters: list[ACLFilter]) -> None:
    for _, _, error in admin.delete_acls(filters) if filters else ():
        if error not in (NoError, SecurityDisabledError):  # the latter: nobody has rights, nor a listener
            raise BrokerError(f"Kafka takes no rights away: {error.__name__}")


def _filters(host: str, topic: str) -> Iterator[ACLFilter]:
    """The rights of the host's user on a topic, or on ALL."""
    yield _filter(host, ResourceType.TOPIC, topic)
    if topic == ALL:
        yield _filter(host, ResourceType.GROUP, _GROUPS.resource_name)


def _filter(host: str, kind: ResourceType, name: str | None) -> ACLFilter:
    """Each right of the host's user on things of that kind and name; None: of any name."""
    pattern = ResourcePatternFilter(kind, name, ACLResourcePatternType.ANY)
    return ACLFilter(f"User:{user(host)}", None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)

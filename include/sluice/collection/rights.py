"""Kafka's users for the hosts with collectors, and their rights.

A host's user may write to the collectors' topics, and describe them, and nothing else. Its password reaches
Kafka salted and hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError, NoError, SecurityDisabledError

from sluice.collection.broker import BrokerError, admitted, dismissed, granted, password_file, record, user
from sluice.runtime.settings import Settings

_RIGHTS = (ACLOperation.WRITE, ACLOperation.DESCRIBE)
_SCRAM = ScramMechanism.SCRAM_SHA_512
_REQUEST_MS = 10_000


def grant(settings: Settings, topics: Iterable[str]) -> list[str]:
    """Have Kafka know each host's user, with rights on just these topics; returns the hosts that changed.

    Nothing is asked while nothing changes. Raises BrokerError.
    """
    wanted = set(topics)
    changed = [host for host in admitted(settings) if granted(settings, host) != wanted]
    if changed:
        with _admin(settings) as admin:
            for host in changed:
                _give(admin, host, password_file(settings, host).read_text(), wanted)
                gone = granted(settings, host) - wanted
                _delete(admin, [_filter(host, topic) for topic in sorted(gone)])
                record(settings, host, wanted)
    return changed


def dismiss(settings: Settings, host: str) -> None:
    """Take the host's user and its rights away. Raises BrokerError; then it may be repeated.

    Callers hold the deployment's lock, under which users are made.
    """
    if host not in admitted(settings):
        return
    with _admin(settings) as admin:
        _delete(admin, [_filter(host, None)])
        known = admin.describe_user_scram_credentials([user(host)])[user(host)]
        if known["credential_infos"]:
            _altered(admin.alter_user_scram_credentials([UserScramCredentialDeletion(user(host), _SCRAM)]))
    dismissed(settings, host)


def _give(admin: KafkaAdminClient, host: str, password: str, topics: Iterable[str]) -> None:
    _altered(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user(host), _SCRAM, password)]))
    acls = [
        ACL(
            f"User:{user(host)}",
            "*",
            right,
            ACLPermissionType.ALLOW,
            ResourcePattern(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL),
        )
        for topic in sorted(topics)
        for right in _RIGHTS
    ]
    for error in admin.create_acls(acls)["failed"]:
        raise BrokerError(
            f"Kafka gives {user(host)} no rights ({error.__name__}): it began before the host was enrolled; "
            "run `sluice down` and `sluice up`"
        )


@contextmanager
def _admin(settings: Settings) -> Iterator[KafkaAdminClient]:
    """Kafka's administration, by the listener of this machine."""
    try:
        client = KafkaAdminClient(
            bootstrap_servers=settings.kafka.bootstrap,
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


def _filter(host: str, topic: str | None) -> ACLFilter:
    """Each right of the host's user, or each on one topic."""
    pattern = ResourcePatternFilter(ResourceType.ANY, topic, ACLResourcePatternType.ANY)
    return ACLFilter(f"User:{user(host)}", None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)

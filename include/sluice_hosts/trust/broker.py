"""What Kafka must know of hosts with collectors or jobs: the passwords of their users, a listener for them.

A host's password is in ``<home>/hosts/<name>/kafka``, of mode 0600. It goes to the host in a file, by SFTP.
`rights` tells Kafka.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from pathlib import Path, PurePath

from sluice.collection.agent import LOCAL
from sluice.collection.errors import AgentError
from sluice.collection.machine import IDENTITY, TRUST
from sluice.runtime.files import write_whole
from sluice.runtime.sections import KafkaLogin
from sluice.runtime.settings import Settings
from sluice.transmission import listener
from sluice.transmission.listener import KafkaListener
from sluice_hosts.trust import certificates

#: The file of a collector's version with its user and password, as Java's login takes it.
LOGIN = "kafka.jaas"
#: The roles whose hosts have a user in Kafka.
ROLES = frozenset({"collector", "jobs"})
#: In the place of a topic: to read all topics, and to be in Sluice's consumer groups, as jobs do.
ALL = "*"


class BrokerError(AgentError):
    """Kafka does not know a host's user as it should."""


def user(host: str) -> str:
    """The name of the host's user in Kafka."""
    return f"host-{host}"


def password_file(settings: Settings, host: str) -> Path:
    return settings.home / "hosts" / host / "kafka"


def admitted(settings: Settings) -> list[str]:
    """The hosts that have a user, or are about to get one."""
    return sorted(path.parent.name for path in (settings.home / "hosts").glob("*/kafka"))


def admit(settings: Settings, host: str) -> None:
    """Make the password of the host's user, unless it has one."""
    path = password_file(settings, host)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, secrets.token_urlsafe(32), 0o600)


def granted(settings: Settings, host: str) -> set[str]:
    """The topics to which the host's user may write, and perhaps ALL, by what Kafka was told (`rights`)."""
    path = _record(settings, host)
    known = json.loads(path.read_text()) if path.exists() else {}
    return set(known["topics"]) if known.get("password") == _password_sum(settings, host) else set()


def record(settings: Settings, host: str, topics: Iterable[str]) -> None:
    """Record what Kafka was told."""
    told = {"password": _password_sum(settings, host), "topics": sorted(topics)}
    write_whole(_record(settings, host), json.dumps(told), 0o600)


def forgotten(settings: Settings, host: str) -> None:
    """Forget what Kafka was told, because Kafka forgot it."""
    _record(settings, host).unlink(missing_ok=True)


def dismissed(settings: Settings, host: str) -> None:
    """Forget the user that nothing may log in as any more."""
    forgotten(settings, host)
    password_file(settings, host).unlink(missing_ok=True)


def check_granted(settings: Settings, host: str, topic: str) -> None:
    """Raises BrokerError if Kafka does not know yet that the host may write to the topic, or read ALL.

    Nothing must begin there before: Kafka's client, once it was refused, does not try again.
    """
    if topic not in granted(settings, host):
        what = "to read" if topic == ALL else f"for topic {topic!r}"
        raise BrokerError(
            f"Kafka does not know {user(host)} yet, or not {what}: it is told as soon as it answers; if this "
            "stays, see the log of the task supervise"
        )


def listen(settings: Settings, address: str) -> None:
    """Have the broker listen at this machine's address from its next start on, if a host needs it."""
    if not admitted(settings):
        listener.remove(settings.home)
        return
    own = settings.home / "hosts" / LOCAL
    identity, trust = own / IDENTITY, own / TRUST
    wanted = KafkaListener(address, str(identity), str(trust), certificates.checksum(own))
    if wanted != listener.read(settings.home):
        listener.write(settings.home, wanted)


def bootstrap(settings: Settings, address: str) -> str:
    """Where other hosts reach the broker; ``address``: this machine's."""
    return f"{address}:{settings.port(listener.PORT)}"


def from_elsewhere(settings: Settings, host: str, at: PurePath) -> Settings:
    """The settings of a job on the host: it logs in, if the broker listens to other hosts.

    at: the folder there with the `certificates.files`. Raises BrokerError if the host has no user.
    """
    found = listener.read(settings.home)
    if found is None or "kafka" in settings.external:
        return settings
    own = KafkaLogin(
        user=user(host),
        password=password(settings, host),
        authority=str(at / certificates.AUTHORITY),
        certificate=str(at / certificates.CERTIFICATE),
        key=str(at / certificates.KEY),
    )
    reached = {"bootstrap": bootstrap(settings, found.address), "login": own}
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update=reached)})


def login(settings: Settings, host: str) -> bytes:
    """The file with which the host's collectors log in. Raises BrokerError if the host has no user."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    secret = password(settings, host)
    return f'KafkaClient {{ {module} required username="{user(host)}" password="{secret}"; }};\n'.encode()


def password(settings: Settings, host: str) -> str:
    """Of the host's user. Raises BrokerError if the host has none."""
    path = password_file(settings, host)
    if not path.exists():
        raise BrokerError(f"host {host} has no user in Kafka: run `sluice hosts enrol {host}`")
    return path.read_text()


def _record(settings: Settings, host: str) -> Path:
    return settings.home / "hosts" / host / "kafka.granted"


def _password_sum(settings: Settings, host: str) -> str:
    path = password_file(settings, host)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""

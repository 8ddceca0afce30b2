"""The hosts on which agents and jobs run: ``hosts.yaml``, read and checked.

`local` is this machine, where the platform runs. It has every role. Without the file it is the only host, at
the address where all daemons listen.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sluice.collection.agent import LOCAL
from sluice.collection.errors import HostListError
from sluice.collection.inventory import PLACED
from sluice.runtime.settings import Settings

MOST_HOSTS = 1_000
FILE = "hosts.yaml"

_NAME = r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$"
# An IPv4 address or a name; IPv6 is not taken, because the agents' JVMs speak IPv4.
_ADDRESS = r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$"
# An absolute path without odd characters: it is part of a script.
_RELEASE = r"^(/[A-Za-z0-9._+-]+)+$"
# The id of a connection in Airflow. It begins with no dash, because it is an argument of a command.
_CONNECTION = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$"
Role = Literal["edge", "collector", "jobs"]
_ROLES: tuple[Role, ...] = get_args(Role)
_REMEDIES = {
    "missing": "add it",
    "literal_error": "choose among these, or leave it out",
    "extra_forbidden": "unknown key: remove it, or correct its spelling",
}


class HostsError(HostListError):
    """The list of hosts cannot be used."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        super().__init__(f"{path}: " + "; ".join(problems))


class Ssh(BaseModel):
    """How a host is reached. Its host key is pinned by `sluice hosts enrol`, not here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
    port: Annotated[int, Field(ge=1, le=65_535)] = 22
    key_file: Path | None = None  # a private key of the user's; default: one that `enrol` makes for this host


class Host(BaseModel):
    """One machine. ``roles``: what may run on it.

    ssh, connection: how it is reached, here or in an Airflow connection of that id; `local` has neither.
    release: where Sluice is installed there, which the role `jobs` needs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=_NAME)]
    address: Annotated[str, Field(pattern=_ADDRESS)]
    ssh: Ssh | None = None
    connection: Annotated[str, Field(pattern=_CONNECTION)] | None = None
    slots: Annotated[int, Field(ge=1, le=1_000)] = 8  # how many agents and jobs may run there
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ("edge",)
    release: Annotated[str, Field(pattern=_RELEASE)] | None = None


_HOSTS = TypeAdapter(Annotated[list[Host], Field(min_length=1, max_length=MOST_HOSTS)])


def path_of(settings: Settings) -> Path:
    """The instance's own list if it has one, else the project's."""
    own = settings.home / FILE
    return own if own.exists() else settings.root / "include" / FILE


def load(settings: Settings) -> dict[str, Host]:
    """The hosts by name, `local` among them. Raises HostsError with everything that is wrong."""
    path = path_of(settings)
    here = Host(name=LOCAL, address=settings.bind_host, roles=_ROLES)
    if not path.exists():
        return {LOCAL: here}
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise HostsError(path, [f"cannot be read ({error}): restore or remove it"]) from error
    return {LOCAL: here, **_parse(path, text, settings.private)}


@functools.lru_cache(maxsize=8)  # each look at each agent asks
def _parse(path: Path, text: str, private: bool) -> dict[str, Host]:
    try:
        tree = yaml.compose(text, yaml.CSafeLoader)
        data = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise HostsError(path, [f"not YAML: {' '.join(str(error).split())}"]) from error
    problems: list[tuple[yaml.Node | None, str]] = [
        (node, f"the key {node.value!r} is given twice; keep one") for node in _doubled(tree)
    ]
    found: list[Host] = []
    try:
        found = _HOSTS.validate_python(data)
    except ValidationError as error:
        problems += [_problem(tree, each) for each in error.errors()]
    else:
        problems += [(_node(tree, at), what) for at, what in _problems(found, private)]
    if problems:
        lines = (f"line {node.start_mark.line + 1}: " if node else "" for node, _ in problems)
        raise HostsError(path, [line + what for line, (_, what) in zip(lines, problems, strict=True)])
    every = {"roles": _ROLES}
    return {each.name: each.model_copy(update=every) if each.name == LOCAL else each for each in found}


Problem = tuple[tuple[int | str, ...], str]  # where in the document, and what


def _problems(found: list[Host], private: bool) -> Iterator[Problem]:
    """The problems that no single field shows."""
    counts = Counter(host.name for host in found)
    for i, host in enumerate(found):
        if counts[host.name] > 1:
            yield (i, "name"), f"name = {host.name!r}: given {counts[host.name]} times; keep one"
        yield from _access_problems(i, host)
        if host.name == PLACED:
            yield (i, "name"), f"name = {PLACED!r}: runs_on has this word for no host; choose another"
        if host.name == LOCAL and "roles" in host.model_fields_set and set(host.roles) != set(_ROLES):
            yield (i, "roles"), "roles: local has every role; remove it"
        yield from _release_problems(i, host)
        if said := unreachable(host.address, private):
            yield (i, "address"), f"address = {host.address!r}: {said}"
    if any(host.name != LOCAL for host in found) and not counts[LOCAL]:
        yield (), "local is missing; add it with the address at which the other hosts reach this machine"


def _access_problems(i: int, host: Host) -> Iterator[Problem]:
    if host.name == LOCAL:
        for field in ("ssh", "connection"):
            if getattr(host, field) is not None:
                yield (i, field), f"{field}: local is this machine, which is not reached over SSH; remove it"
    elif host.ssh is None and host.connection is None:
        yield (
            (i,),
            f"{host.name}: ssh is missing; add ssh: {{user: ...}}, the account to log in to, or connection: "
            "with the id of an Airflow connection of the type ssh",
        )
    elif host.ssh is not None and host.connection is not None:
        yield (i, "connection"), f"connection = {host.connection!r}: ssh is given, too; keep one of them"


def _release_problems(i: int, host: Host) -> Iterator[Problem]:
    if host.name == LOCAL:
        if host.release is not None:
            yield (i, "release"), "release: local runs the platform's own; remove it"
    elif "jobs" in host.roles and host.release is None:
        yield (i,), f"{host.name}: the role jobs needs Sluice there; add release: /the/folder/of/the/checkout"
    elif host.release is not None and "jobs" not in host.roles:
        yield (i, "release"), "release: only the role jobs needs it; add the role, or remove it"


def unreachable(address: str, private: bool) -> str:
    """Why no machine is reached at an address, with the remedy; empty if one may be.

    private: whether the instance's network is its own.
    """
    if not re.fullmatch(_ADDRESS, address):
        return "no IPv4 address or name of a machine; correct it"
    if is_address(address) and not _is_ipv4(address):
        return "no IPv4 address; write four numbers from 0 to 255, without zeros before them"
    if private and not is_loopback(address):
        return (
            "the instance's network is private and has no other machines; set network: host in "
            "include/settings.yaml (docs/hosts.md says what that opens)"
        )
    return ""


def is_loopback(address: str) -> bool:
    """Whether only this machine itself is reached there."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _is_ipv4(address: str) -> bool:
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        return False
    return True


def _problem(tree: yaml.Node | None, error: Any) -> tuple[yaml.Node | None, str]:
    at = tuple(error["loc"])
    field = ".".join(str(each) for each in at if isinstance(each, str)) or "the list of hosts"
    if error["type"] == "missing":
        return _node(tree, at[:-1]), f"{field}: missing; {_REMEDIES['missing']}"
    remedy = _REMEDIES.get(error["type"], "correct it")
    return _node(tree, at), f"{field} = {str(error['input'])[:80]!r}: {error['msg']}; {remedy}"


def _node(tree: yaml.Node | None, at: tuple[int | str, ...]) -> yaml.Node | None:
    """What lies at a place of the document, or the nearest that there is around it."""
    node = tree
    for step in at:
        below: yaml.Node | None = None
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            below = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            below = next((value for key, value in node.value if key.value == step), None)
        if below is None:
            break
        node = below
    return node


def _doubled(node: yaml.Node | None) -> Iterator[yaml.Node]:
    """Keys given again, of which YAML would keep the last."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if str(key.value) in seen:
                yield key
            seen.add(str(key.value))
            yield from _doubled(value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _doubled(each)


def is_address(text: str) -> bool:
    """Whether it is meant as an IPv4 address, and not as a name."""
    return re.fullmatch(r"[0-9.]+", text) is not None

"""The inventory: which front-ends' files go through which agents into which topic.

Everything is checked when it is loaded, before any file is written or any process touched: an error names the
field, its value and the remedy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from sluice.collection.agent import LOCAL
from sluice.collection.errors import HostListError
from sluice.collection.hosting import hosting
from sluice.collection.pattern import Pattern, PatternError
from sluice.runtime.settings import Settings
from sluice.transmission.line_identity import KAFKA_HOST

# Where the kinds of ports begin, counted from the setting `flume`. They lie apart so that one more front-end
# or collector moves no other agent's port: moved ports would restart every agent.
COLLECTOR_METRICS = 100
EDGE_METRICS = 200
MOST_COLLECTORS = 100
MOST_FRONT_ENDS = 10_000
LAST_PORT = 65_535
SHOWN = 200  # characters of a value, in a message
#: What a collector says instead of a host whose choice it leaves to the placement.
PLACED = "placed"

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")
Port = Annotated[int, Field(ge=1024, le=LAST_PORT)]
_REMEDIES = {
    "extra_forbidden": "unknown key: remove it, or correct its spelling",
    "missing": "missing: add it",
    "literal_error": "must be one of the values named",
}


class InventoryError(ValueError):
    """The inventory cannot be deployed."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        super().__init__(f"{path}: " + "; ".join(problems))


class FrontEnd(BaseModel):
    """One machine whose log files are followed by an edge agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    runs_on: str = LOCAL  # a host of hosts.yaml
    files: list[str] = Field(min_length=1)
    channel: Literal["memory", "file"] = "memory"
    collectors: list[str] = []  # in order of preference; default: all, rotated so that the load is spread
    capacity: int = Field(10_000, ge=1_000, le=10_000_000)  # blocks of lines; 64 MiB at most in memory
    metrics_port: Port | None = None


class Collector(BaseModel):
    """One agent that gathers what the edges send and writes it to Kafka."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    runs_on: str = LOCAL  # a host of hosts.yaml with the role collector; or PLACED
    port: Port | None = None
    metrics_port: Port | None = None
    capacity: int = Field(200_000, ge=1_000, le=100_000_000)  # blocks of lines, 64 KiB each at most


class Inventory(BaseModel):
    """The whole inventory; `load` fills in every default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")
    front_ends: list[FrontEnd] = Field(min_length=1, max_length=MOST_FRONT_ENDS)
    collectors: list[Collector] = Field(min_length=1, max_length=MOST_COLLECTORS)
    _placed: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def host_of(self, collector: Collector) -> str:
        """The host on which the collector is to run."""
        if collector.runs_on != PLACED:
            return collector.runs_on
        return self._placed.get(collector.name, LOCAL)


def path_of(settings: Settings) -> Path:
    """The instance's own inventory if it has one, else the project's."""
    own = settings.home / "collection.yaml"
    return own if own.exists() else settings.root / "include" / "collection.yaml"


def load(settings: Settings, path: Path | None = None, placed: Mapping[str, str] | None = None) -> Inventory:
    """Read, check and complete the inventory.

    placed: the host of each collector that says `placed`, by its name; by default where the placement has it.

    Raises InventoryError with everything that is wrong.
    """
    path = path or path_of(settings)
    try:
        data = yaml.load(path.read_text(), Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader
        inventory = _complete(Inventory.model_validate(data), settings)
        inventory._placed = hosting().placed(settings) if placed is None else placed
    except OSError as error:
        raise InventoryError(
            path, [f"cannot be read ({error.strerror}): create it, or restore it"]
        ) from error
    except yaml.YAMLError as error:
        raise InventoryError(path, [f"not YAML: {' '.join(str(error).split())}"]) from error
    except ValidationError as error:
        raise InventoryError(path, [_problem(e) for e in error.errors()]) from error
    except HostListError as error:
        raise InventoryError(path, [str(error)]) from error
    if problems := list(_problems(inventory, settings)):
        raise InventoryError(path, problems)
    return inventory


def _complete(inventory: Inventory, settings: Settings) -> Inventory:
    """Give every agent its ports and every front-end its order of collectors."""
    first = settings.port("flume")
    collectors = [
        c.model_copy(
            update={
                "port": c.port or first + i,
                "metrics_port": c.metrics_port or first + COLLECTOR_METRICS + i,
            }
        )
        for i, c in enumerate(inventory.collectors)
    ]
    names = [c.name for c in collectors]
    front_ends = [
        f.model_copy(
            update={
                "collectors": f.collectors or [*names[i % len(names) :], *names[: i % len(names)]],
                "metrics_port": f.metrics_port or first + EDGE_METRICS + i,
            }
        )
        for i, f in enumerate(inventory.front_ends)
    ]
    return inventory.model_copy(update={"front_ends": front_ends, "collectors": collectors})


def _problems(inventory: Inventory, settings: Settings) -> Iterable[str]:
    """The problems that no single field shows."""
    agents: list[tuple[str, str]] = [
        *((f"front_ends.{i}.host", f.host) for i, f in enumerate(inventory.front_ends)),
        *((f"collectors.{i}.name", c.name) for i, c in enumerate(inventory.collectors)),
    ]
    for field, name in agents:
        if not _NAME.fullmatch(name):
            yield f"{field} = {name!r}: use lower-case letters, digits, dots and hyphens, 64 at most"
        if name == KAFKA_HOST:
            yield f"{field} = {name!r}: records that come from no file have this name; choose another"
    yield from _doubles(agents, "give each front-end and collector a name of its own")

    ports = [
        *((f"front_ends.{i}.metrics_port", f.metrics_port) for i, f in enumerate(inventory.front_ends)),
        *((f"collectors.{i}.port", c.port) for i, c in enumerate(inventory.collectors)),
        *((f"collectors.{i}.metrics_port", c.metrics_port) for i, c in enumerate(inventory.collectors)),
    ]
    yield from _doubles(ports, "give each agent ports of its own, or leave them out")
    others = {settings.port(n): n for n in settings.port_offsets if n != "flume"}
    for field, port in ports:
        if port is not None and port > LAST_PORT:
            yield f"{field} = {port}: ports end at {LAST_PORT}; set a smaller one, or a smaller port base"
        if port in others:
            yield f"{field} = {port}: this is the port of {others[port]}; choose another, or leave it out"

    yield from hosting().problems(inventory, settings)
    known = {c.name for c in inventory.collectors}
    patterns: list[tuple[str, str]] = []
    for i, front_end in enumerate(inventory.front_ends):
        chosen = [(f"front_ends.{i}.collectors", name) for name in front_end.collectors]
        for field, name in chosen:
            if name not in known:
                yield f"{field} = {name!r}: no such collector; known are {', '.join(sorted(known))}"
        yield from _doubles(chosen, "name each collector once")
        for j, text in enumerate(front_end.files):
            field = f"front_ends.{i}.files.{j}"
            try:
                pattern = Pattern.parse(text, settings.home)
            except PatternError as error:
                yield f"{field} = {text!r}: {error}"
            else:
                patterns.append((field, f"{front_end.runs_on}:{pattern.directory}/{pattern.regex}"))
    yield from _doubles(patterns, "a file may be followed by one agent only")


def _doubles(values: Iterable[tuple[str, Any]], remedy: str) -> Iterable[str]:
    values = list(values)
    counts = Counter(value for _, value in values)
    for value, count in counts.items():
        if count > 1:
            fields = ", ".join(field for field, v in values if v == value)
            yield f"{fields} = {value!r}: given {count} times; {remedy}"


def _problem(error: Any) -> str:
    field = ".".join(map(str, error["loc"])) or "the file"
    text = _REMEDIES.get(error["type"], "")
    if error["type"] == "missing":
        return f"{field}: {text}"
    message = f"{error['msg']}; {text}" if text else error["msg"]
    shown = repr(error["input"])
    return f"{field} = {shown if len(shown) <= SHOWN else shown[:SHOWN] + '...'}: {message}"


class _UniqueKeys(yaml.CSafeLoader):  # libyaml's parser: 5,000 front-ends take 0.5 s instead of 4
    """A loader that refuses a key given twice; YAML itself would keep the last value."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice: remove one", node.start_mark
                )
        return dict(super().construct_mapping(node, deep=deep))

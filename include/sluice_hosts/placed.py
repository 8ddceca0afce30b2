"""Where units belong whose host is left to the placement: ``<home>/placement.yaml``.

A mapping of unit names to hosts, such as ``collector:collector1: h3``. It says what is wanted: the deployment
brings a collector there, and the supervision a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import yaml
from filelock import FileLock
from pydantic import StringConstraints, TypeAdapter, ValidationError

from sluice.collection.errors import HostListError
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings

FILE = "placement.yaml"
_COLLECTOR = "collector:"

_Text = Annotated[str, StringConstraints(strict=True, min_length=1)]
_MAPPING = TypeAdapter(dict[_Text, _Text])


class PlacedError(HostListError):
    """The file of placements cannot be used."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}: correct it, or remove it, and all is on local")


def path_of(settings: Settings) -> Path:
    return settings.home / FILE


def unit(collector: str) -> str:
    """The name of a collector among the units."""
    return f"{_COLLECTOR}{collector}"


def collectors(hosts: Mapping[str, str]) -> dict[str, str]:
    """The host of each collector, by its name, among those of units."""
    return {unit.removeprefix(_COLLECTOR): host for unit, host in hosts.items() if is_collector(unit)}


def is_collector(unit: str) -> bool:
    return unit.startswith(_COLLECTOR)


def read(settings: Settings) -> dict[str, str]:
    """The host of each placed unit, by the unit's name; empty without the file. Raises PlacedError."""
    path = path_of(settings)
    try:
        data = yaml.load(path.read_text(), yaml.CSafeLoader)
        return _MAPPING.validate_python({} if data is None else data)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise PlacedError(path, f"cannot be read ({error})") from error
    except yaml.YAMLError as error:
        raise PlacedError(path, f"not YAML ({' '.join(str(error).split())})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        shown = str(first["input"])[:80]
        raise PlacedError(path, f"{where} = {shown!r}: no mapping of unit names to hosts") from error


def update(settings: Settings, hosts: Mapping[str, str]) -> None:
    """Write down where these units belong; other units stay as they are. Raises PlacedError."""
    path = path_of(settings)
    with FileLock(path.with_name(f".{FILE}.lock")):  # not the deployment's, which may be held for minutes
        write(settings, {**read(settings), **hosts})


def write(settings: Settings, mapping: Mapping[str, str]) -> None:
    """Replace the file as a whole."""
    write_whole(path_of(settings), yaml.safe_dump(dict(mapping), sort_keys=True))

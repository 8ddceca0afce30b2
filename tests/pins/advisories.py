"""Known advisories, in OSV's format (https://ossf.github.io/osv-schema), and which of them a pin has.

``advisories.json`` comes from databases (``collect.py``); what these did not have yet was read one by one. It
holds facts only, no texts: each line is a record, whose ``database_specific.source`` names where it is from.
The head says of which day each source is.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion
from packaging.version import Version as PythonVersion

from tests.pins import maven
from tests.pins.pinned import UNKNOWN, Pin

FILE = Path(__file__).with_name("advisories.json")
Record = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """What the file holds. sources: where the records are from, and of which day each source is."""

    sources: Mapping[str, datetime.date]
    records: Sequence[Record]


@dataclass(frozen=True, order=True)
class Finding:
    """A pin that an advisory is about. fixed: the first versions without it, of any branch."""

    pin: Pin
    advisory: str
    aliases: tuple[str, ...]
    severity: str
    fixed: tuple[str, ...]


def load(file: Path = FILE) -> Known:
    content = json.loads(file.read_text())
    sources = {name: datetime.date.fromisoformat(date) for name, date in content["sources"].items()}
    return Known(sources, content["advisories"])


def save(known: Known, file: Path = FILE) -> None:
    """One line a record, so that a change of a record is a change of its line."""
    sources = json.dumps({name: known.sources[name].isoformat() for name in sorted(known.sources)}, indent=1)
    records = ",\n".join(json.dumps(one) for one in sorted(known.records, key=lambda one: one["id"]))
    file.write_text(f'{{"sources": {sources},\n"advisories": [\n{records}\n]}}\n')


def findings(pins: Iterable[Pin], known: Known) -> list[Finding]:
    """Each advisory that a pin has, once, even if several records are about it."""
    by_name: dict[tuple[str, str], list[tuple[Record, Record]]] = {}
    for record in known.records:
        for affected in () if record.get("withdrawn") else record["affected"]:
            package = affected["package"]
            for name in _names(package["ecosystem"], package["name"]):
                by_name.setdefault((package["ecosystem"], name), []).append((record, affected))
    found: dict[tuple[Pin, frozenset[str]], Finding] = {}
    for pin in pins:
        for record, affected in by_name.get((pin.ecosystem, pin.name), ()):
            if affects(affected, pin):
                finding = _finding(pin, record, affected)
                names = {finding.advisory, *finding.aliases}
                cve = next((name for name in sorted(names) if name.startswith("CVE-")), finding.advisory)
                found.setdefault((pin, frozenset({cve})), finding)
    return sorted(found.values())


def fixed_by(found: Iterable[Finding]) -> str | None:
    """The first version of one pin's package that none of these is about, or None if one has no later fix."""
    firsts = []
    for finding in found:
        now = _version(finding.pin.ecosystem, finding.pin.version)
        limits = [(_version(finding.pin.ecosystem, text), text) for text in finding.fixed]
        later = [limit for limit in limits if limit[0] > now]
        if not later:
            return None
        firsts.append(min(later, key=lambda limit: limit[0]))
    return max(firsts, key=lambda limit: limit[0])[1]


def affects(affected: Record, pin: Pin) -> bool:
    """Whether the pin's version is one of these: OSV's rule for versions and ranges."""
    if pin.version in affected.get("versions", ()):
        return True
    return any(_inside(events, pin) for events in _events(affected, pin))


def reaches(affected: Record, pin: Pin) -> bool:
    """Whether the pin's version or any later one is among these."""
    if affects(affected, pin):
        return True
    version = _version(pin.ecosystem, pin.version)
    lasts = (events[-1] for events in _events(affected, pin))
    return any(kind == "introduced" or limit > version for kind, _, limit in lasts)


def _events(affected: Record, pin: Pin) -> Iterator[list[tuple[str, str, Any]]]:
    """The limits of each range in the order of versions: their kind, their text and their version."""
    for one in affected.get("ranges", ()):
        if one["type"] in ("ECOSYSTEM", "SEMVER"):
            events = [next(iter(event.items())) for event in one["events"]]
            limits = [(kind, at, _version(pin.ecosystem, at)) for kind, at in events]
            yield sorted(limits, key=lambda limit: (limit[2], limit[0] == "introduced"))


def _inside(events: Iterable[tuple[str, str, Any]], pin: Pin) -> bool:
    version = _version(pin.ecosystem, pin.version)
    inside = False
    for kind, at, limit in events:
        if kind == "introduced":
            inside = inside or at == "0" or version >= limit
        elif kind == "fixed":
            inside = inside and version < limit
        elif kind == "last_affected":
            inside = inside and version <= limit
    return inside


def _version(ecosystem: str, text: str) -> Any:
    if ecosystem == "PyPI":
        try:
            return PythonVersion(text)
        except InvalidVersion as error:
            raise ValueError(f"{text!r} is no version of a Python package (PEP 440)") from error
    return maven.Version(text)


def _names(ecosystem: str, name: str) -> Iterator[str]:
    """A package of Maven is found by its artifact, too, in a jar that does not say its group."""
    yield name
    if ecosystem == "Maven":
        yield f"{UNKNOWN}:{name.partition(':')[2]}"


def _finding(pin: Pin, record: Record, affected: Record) -> Finding:
    events = [event for one in affected.get("ranges", ()) for event in one["events"]]
    fixed = tuple(event["fixed"] for event in events if "fixed" in event)
    severity = record.get("database_specific", {}).get("severity", "unknown").lower()
    return Finding(pin, record["id"], tuple(record.get("aliases", ())), severity, fixed)

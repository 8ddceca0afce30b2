"""Renew ``advisories.json``: ``python -m tests.pins.collect DATE SOURCE=FOLDER...``.

A folder is a checkout of a database in OSV's format (.json, or .yaml as PyPA has it). Only records that reach
what is pinned here are taken, and of them only the facts: no summary, no details, no credits. What other
sources gave stays, as far as it reaches a pin and the databases named do not have it.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.pins.advisories import FILE, Known, Record, load, reaches, save
from tests.pins.pinned import UNKNOWN, Pin, all_pins


def records(folder: Path) -> Iterator[Record]:
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".json":
            yield json.loads(path.read_text())
        elif path.suffix in (".yaml", ".yml"):
            yield yaml.safe_load(path.read_text())


def renewed(known: Known, date: datetime.date, folders: Mapping[str, Path], pins: Iterable[Pin]) -> Known:
    """What is known after these sources were read again on that day."""
    pins = list(pins)
    read = {source: [facts(one, pins, source) for one in records(folders[source])] for source in folders}
    fresh = [one for ones in read.values() for one in ones if one is not None]
    names = {name for one in fresh for name in _names(one)}
    older = [
        fact
        for one in known.records
        if _source(one) not in folders and names.isdisjoint(_names(one))
        if (fact := facts(one, pins, _source(one))) is not None
    ]
    return Known({**known.sources, **dict.fromkeys(folders, date)}, [*fresh, *older])


def facts(record: Record, pins: Iterable[Pin], source: str) -> Record | None:
    """What we keep of a record, or None if it reaches nothing that is pinned, or was withdrawn."""
    pins = list(pins)
    affected = [
        {
            "package": {"ecosystem": one["package"]["ecosystem"], "name": one["package"]["name"]},
            **{key: one[key] for key in ("ranges", "versions") if one.get(key) and not _redundant(one, key)},
        }
        for one in record.get("affected", ())
        if any(_same(one["package"], pin) and reaches(one, pin) for pin in pins)
    ]
    if not affected or record.get("withdrawn"):
        return None
    severity = record.get("database_specific", {}).get("severity")
    ours = [one for one in record.get("references", ()) if one.get("type") == "ADVISORY"][:1]
    return {
        "id": record["id"],
        "aliases": record.get("aliases", []),
        "modified": _text(record["modified"]),
        **({"published": _text(record["published"])} if "published" in record else {}),
        "affected": [{**one, **({"ranges": _ranges(one)} if "ranges" in one else {})} for one in affected],
        "references": ours or [{"type": "ADVISORY", "url": f"https://osv.dev/vulnerability/{record['id']}"}],
        "database_specific": {**({"severity": severity} if severity else {}), "source": source},
    }


def _source(record: Record) -> str:
    return str(record["database_specific"]["source"])


def _names(record: Record) -> set[str]:
    return {record["id"], *record["aliases"]}


def _redundant(affected: Record, key: str) -> bool:
    """A list of versions says nothing beside ranges of the ecosystem."""
    return key == "versions" and any(one["type"] == "ECOSYSTEM" for one in affected.get("ranges", ()))


def _ranges(affected: Record) -> list[Record]:
    kept = (one for one in affected["ranges"] if one["type"] in ("ECOSYSTEM", "SEMVER"))
    return [{"type": one["type"], "events": one["events"]} for one in kept]


def _same(package: Record, pin: Pin) -> bool:
    ecosystem, name = package["ecosystem"], package["name"]
    bare = f"{UNKNOWN}:{name.partition(':')[2]}" if ecosystem == "Maven" else name
    return pin.ecosystem == ecosystem and pin.name in (name, bare)


def _text(moment: Any) -> str:
    return moment.isoformat() if isinstance(moment, datetime.datetime) else str(moment)


def main(date: str, *sources: str) -> None:
    folders = {name: Path(folder) for name, _, folder in (source.rpartition("=") for source in sources)}
    known = renewed(load(), datetime.date.fromisoformat(date), folders, all_pins())
    save(known)
    print(f"advisories: {len(known.records)} in {FILE.name}, of {len(folders)} databases read on {date}")


if __name__ == "__main__":
    main(*sys.argv[1:])

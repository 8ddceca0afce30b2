"""What changed in the settings and their files since the instance was brought up last, for the history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings

FILE = "settings.json"
#: Whose values are secrets (an address of a webhook may hold one), or not a person's choice.
_LEFT_OUT = ("kafka.login", "notifications.webhook", "home", "root")
_SECRET = ("password", "_key")


def changed(settings: Settings, files: Sequence[Path] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that are others than at the last call, before and after; nothing at the first call.

    Secrets are left out. files: those that people edit beside the settings; of each the lines that changed.
    """
    file = settings.home / "secrets" / FILE
    now = dict(_flat(settings.model_dump(mode="json")))
    lines = {path.name: path.read_text().splitlines() if path.exists() else [] for path in files}
    before = json.loads(file.read_text()) if file.exists() else {**now, **lines}
    write_whole(file, json.dumps({**now, **lines}), 0o600)
    names = sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
    names = [name for name in names if name not in lines]
    was, new = _only(before, names), _only(now, names)
    for name, text in lines.items():
        known = before.get(name, text)  # a release that did not know of the file left nothing of it
        if known != text:
            was[name] = [line for line in known if line not in text]
            new[name] = [line for line in text if line not in known]
    return was, new


def _only(values: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _flat(values: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Names with dots, and values that are no sections."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if above + name in _LEFT_OUT or name.endswith(_SECRET):
            continue
        if isinstance(value, dict):
            found += _flat(value, f"{above}{name}.")
        else:
            found.append((above + name, value if not isinstance(value, list) else sorted(map(str, value))))
    return found

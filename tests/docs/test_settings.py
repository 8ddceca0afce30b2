"""docs/settings.md has a line for each setting, with its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from sluice.runtime.settings import ROOT, SETTINGS_FILE, Settings

ROW = re.compile(r"(?m)^\| `([\w.]+)` \| (?:`([^`]*)` )?\| \S")
#: Paths of the machine, and tables of ports, which another page has.
UNSAID = {"home", "root", "port_bases", "port_offsets"}


def defaults(model: type[BaseModel], file: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting's full name, and its value in settings.yaml, else in the code."""
    for name, field in model.model_fields.items():
        kind, value = field.annotation, field.get_default(call_default_factory=True)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from defaults(kind, file.get(name) or {}, f"{above}{name}.")
        else:
            yield above + name, file.get(name, value)


def said(name: str, value: Any) -> str:
    """A default as the page has it; nothing for what is empty, or is derived."""
    if name in UNSAID or (value == 0 and name.endswith("port")) or name == "port_base":
        return ""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and name.endswith("_bytes") and value:
        return f"{value >> 20} MiB" if value % (1 << 20) == 0 else f"{value >> 10} KiB"
    return f"{value:g}" if isinstance(value, float) else str(value or ("" if value != 0 else 0))


def test_each_setting_has_a_line_with_its_default() -> None:
    file = yaml.safe_load(SETTINGS_FILE.read_text())
    wanted = [(name, said(name, value)) for name, value in defaults(Settings, file)]
    assert sorted(ROW.findall((ROOT / "docs" / "settings.md").read_text())) == sorted(wanted)


def test_the_file_names_no_setting_that_is_not_there() -> None:
    """A section of settings takes unknown names without a word."""
    known = {name for name, _ in defaults(Settings, {})}
    file = yaml.safe_load(SETTINGS_FILE.read_text())
    sections = {name for name in file if any(each.startswith(f"{name}.") for each in known)}
    named = {f"{name}.{field}" for name in sections for field in file[name]} | file.keys() - sections
    assert named <= known

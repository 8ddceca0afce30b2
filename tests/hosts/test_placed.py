"""The file of placements: read, written, and a mistake in it is named."""

from __future__ import annotations

import pytest

from sluice.runtime.settings import Settings
from sluice_hosts import placed
from sluice_hosts.placed import PlacedError


def test_what_is_written_is_read(settings: Settings) -> None:
    assert placed.read(settings) == {}
    mapping = {placed.unit("collector1"): "h3", "archiver:0": "local"}
    placed.write(settings, mapping)
    assert placed.read(settings) == mapping
    placed.write(settings, {})
    assert placed.read(settings) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not YAML"),
        ("- h3", "no mapping of unit names to hosts"),
        ("collector:collector1: 3", "collector:collector1 = '3': no mapping"),
        ("collector:collector1: ''", "collector:collector1 = '': no mapping"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(settings: Settings, text: str, said: str) -> None:
    placed.path_of(settings).write_text(text)
    with pytest.raises(PlacedError, match=f"placement\\.yaml: .*{said}.*correct it, or remove it"):
        placed.read(settings)

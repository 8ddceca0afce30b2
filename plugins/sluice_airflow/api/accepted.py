"""Which format of results a client gets: the one that it names in the address, else by its header Accept."""

from __future__ import annotations

import re
from typing import Literal

Style = Literal["json", "csv", "arrow"]
MEDIA: dict[Style, str] = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
_RANGE = re.compile(r"\s*([\w!#$&^.+*-]+)/([\w!#$&^.+*-]+)\s*((?:;[^,]*)?)")
_QUALITY = re.compile(r";\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*(?:;|$)", re.IGNORECASE)


class NotAcceptable(ValueError):
    """The client takes none of the formats."""

    def __init__(self, accept: str) -> None:
        super().__init__(f"Accept: {accept[:200]!r} has none of {', '.join(MEDIA.values())}: ask for one")


def style_of(accept: str | None, asked: Style | None) -> Style:
    """The format. Raises NotAcceptable."""
    if asked is not None:
        return asked
    if accept is None or not accept.strip():
        return "json"
    ranges = [found for part in accept.split(",") if (found := _range(part))]
    wanted = {style: _quality(media, ranges) for style, media in MEDIA.items()}
    best = max(wanted, key=lambda style: wanted[style])  # of equal ones the first
    if not wanted[best]:
        raise NotAcceptable(accept)
    return best


def _range(part: str) -> tuple[str, str, float] | None:
    match = _RANGE.fullmatch(part)
    if match is None:
        return None
    quality = _QUALITY.search(match[3])
    return match[1].lower(), match[2].lower(), float(quality[1]) if quality else 1.0


def _quality(media: str, ranges: list[tuple[str, str, float]]) -> float:
    """The quality that the most specific range gives to a format; 0 if none has it."""
    kind, _, name = media.partition("/")
    found = [
        ((kind == a) + (name == b), quality)
        for a, b, quality in ranges
        if a in (kind, "*") and b in (name, "*")
    ]
    return max(found, default=(0, 0.0))[1]

"""Configuration files rendered from ``templates/`` with the instance's settings."""

from __future__ import annotations

from pathlib import Path

import jinja2

from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings

TEMPLATES = Path(__file__).parent / "templates"
_jinja = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    autoescape=jinja2.select_autoescape(["xml"]),
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(settings: Settings, template: str, **values: object) -> str:
    return _jinja.get_template(template).render(settings=settings, port=settings.port, **values)


def write(settings: Settings, template: str, target: Path, **values: object) -> Path:
    """Render the template into ``target``.

    The file has mode 0600, because several of these files hold a password. It is replaced in one step,
    because several daemons may render the same file at the same time.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, render(settings, template, **values), 0o600)
    return target

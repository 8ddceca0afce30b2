"""The log-in page with a button for the provider, and the page on which people come back from it.

The log-in page is Airflow's own, which draws itself. The button is above it in the same document.
"""

from __future__ import annotations

from pathlib import Path

from airflow.api_fastapi.auth.managers.simple import simple_auth_manager
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

_PLACES = (Path(__file__).parent / "templates", Path(simple_auth_manager.__file__).parent / "ui" / "dist")
_TEMPLATES = Environment(loader=FileSystemLoader(_PLACES), autoescape=True)
_ROOT = '<div id="root"'


def log_in(base: str, label: str, begin: str) -> str:
    """Airflow's log-in page with the button. base: of its addresses. begin: where the button leads."""
    page = _TEMPLATES.get_template("index.html").render(backend_server_base_url=base)
    button = _TEMPLATES.get_template("button.html").render(label=label, begin=begin)
    before, root, after = page.partition(_ROOT)
    return f"{before}{button}{root}{after}"


def came_back(heading: str, said: str, there: str, *, at_once: bool) -> str:
    """What is shown to a person who comes back; there: where to go then, by itself if `at_once`."""
    template = _TEMPLATES.get_template("came_back.html")
    return template.render(heading=heading, said=said, there=there, at_once=at_once, style=_style())


def _style() -> Markup:
    return Markup((_PLACES[0] / "style.css").read_text())  # noqa: S704 - our own file

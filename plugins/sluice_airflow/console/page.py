"""A page of the console: a template inside the layout, and the headers that every page has."""

from __future__ import annotations

import functools
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sluice.runtime.installed import own_version
from sluice_airflow.api.security import may
from sluice_airflow.console import shown
from sluice_airflow.console.assets import assets


class NavigationEntry(NamedTuple):
    """A page that the navigation lists; `path` is below the console's own."""

    key: str
    title: str
    path: str


NAVIGATION = (
    NavigationEntry("first", "First page", "/"),
    NavigationEntry("statistics", "Statistics", "/statistics"),
    NavigationEntry("charts", "Charts", "/charts"),
    NavigationEntry("dashboards", "Dashboards", "/dashboards"),
    NavigationEntry("platform", "Platform", "/platform"),
    NavigationEntry("quality", "Quality", "/quality"),
    NavigationEntry("dead", "Dead letters", "/dead"),
    NavigationEntry("history", "History", "/history"),
)


TEMPLATES = Path(__file__).parent / "templates"
PATH = "/console"
#: Everything comes from this server, and no script or style stands in a page itself. Only pages of this
#: server may show a page in a frame, as Airflow does.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'self'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "SAMEORIGIN",
    "Cache-Control": "no-store",
}


@functools.cache
def templates() -> Environment:
    """The templates; every value is escaped, and a value that is missing is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": shown.number, "iso": shown.iso, "utc": shown.utc, "span": shown.span}
    made.filters |= {
        "rounded": shown.rounded,
        "json": shown.as_json,
        "exact": shown.exact,
        "twice": lambda value: (value, value),
    }
    return made


def page(
    request: Request,
    template: str,
    user: BaseUser | None,
    status: int = 200,
    **values: Any,
) -> HTMLResponse:
    """The page for this user; nobody is logged in if it is None.

    values: what the template needs. `here` is the key of the navigation's entry, and `title` the page's.
    """
    return HTMLResponse(render(request, template, user, **values), status, HEADERS)


def lead_to(request: Request, where: str) -> Response:
    """Have the browser ask for another address of the console, after a form was sent."""
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}{PATH}{where}", HTTPStatus.SEE_OTHER)


def render(request: Request, template: str, user: BaseUser | None, **values: Any) -> str:
    """A template's text. Templates also know `base`, `api`, `static`, `version`, `user` and `may_write`."""
    root = request.scope.get("root_path", "")
    known = {
        "base": f"{root}{PATH}",
        "api": f"{root}/api/v1",
        "static": f"{root}{PATH}/static/{assets().digest}",
        "version": own_version(),
        "navigation": NAVIGATION,
        "user": None if user is None else user.get_name(),
        "may_write": user is not None and may("PUT", user),
        "here": "",
        "bare": False,
    }
    return templates().get_template(template).render(known | values)

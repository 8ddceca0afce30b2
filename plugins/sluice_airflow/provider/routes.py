"""The addresses below /auth by which people log in at an identity provider."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.simple import simple_auth_manager
from fastapi import APIRouter, HTTPException, Query, Request, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from sluice.runtime.login_settings import Oidc, SecretUnusable
from sluice.runtime.origin import origin
from sluice.runtime.settings import get_settings
from sluice.runtime.throttle import Rate
from sluice.stack.log import DaemonLog
from sluice_airflow.provider import oidc, people, state
from sluice_airflow.provider.refusal import ProviderAway, ProviderRefusal

LOG_IN_PAGE = "/auth/login"
BEGIN, RETURN = "/provider", "/provider/return"
#: Requests that ask the provider: at most PER_MINUTE a minute of one source, and AT_ONCE at a time of all.
PER_MINUTE, AT_ONCE = 30, 8
#: The answer's fields, each short: whatever else comes along is not read.
_FIELDS, _FIELD_BYTES = ("code", "state", "iss", "error"), 4096
#: Our templates, and Airflow's log-in page, which draws itself below _ROOT.
_FOLDERS = (Path(__file__).parent / "templates", Path(simple_auth_manager.__file__).parent / "ui" / "dist")
_TEMPLATES = Environment(loader=FileSystemLoader(_FOLDERS), autoescape=True)
_ROOT = '<div id="root"'
router = APIRouter()
rate = Rate(PER_MINUTE)
_say = DaemonLog("log-in")
_asking: set[object] = set()


@router.get("/login", include_in_schema=False)
def log_in_page(request: Request, next: str = "") -> HTMLResponse:
    """Airflow's log-in page with a button."""
    begin = f"./auth{BEGIN}?{urlencode({'next': next})}"
    return HTMLResponse(_page_with_button(request.base_url.path, _oidc().label, begin))


@router.get(BEGIN, include_in_schema=False)
async def begin(next: Annotated[str, Query()] = "/") -> Response:
    """Send the person to the provider."""
    settings, provider = get_settings(), _oidc()
    own = settings.airflow.url
    begun = state.BegunLogIn.now(state.following(next, own))
    try:
        with _place():
            found = await oidc.discovered(settings, provider)
    except (ProviderRefusal, ProviderAway) as error:
        return _failed(error)
    answer = RedirectResponse(oidc.address(settings, provider, found, begun), status.HTTP_303_SEE_OTHER)
    _keep(answer, own, state.kept(begun), state.SECONDS)
    return answer


@router.get(RETURN, include_in_schema=False)
async def come_back(request: Request) -> Response:
    """Log the person in who comes back from the provider."""
    from sluice_airflow.auth import SECONDS, token_of

    settings, provider = get_settings(), _oidc()
    own = settings.airflow.url
    given = {name: request.query_params.get(name, "") for name in _FIELDS}
    said = {name: value for name, value in given.items() if value and len(value) <= _FIELD_BYTES}
    try:
        begun = state.returned(request.headers.get("cookie", ""), own, said.get("state", ""))
        with _place():
            await asyncio.to_thread(state.use, begun)
            claims = await oidc.claims(settings, provider, begun, said)
        user = await asyncio.to_thread(people.of_claims, settings, provider, claims)
    except (ProviderRefusal, ProviderAway, SecretUnusable) as error:
        answer = _failed(error)
    else:
        # A page, not a redirect: a browser that is led on from another site sends no cookie of the login.
        there = own.rstrip("/") + begun.next
        answer = HTMLResponse(_return_page(f"Welcome, {user.name}", "", there, at_once=True))
        answer.set_cookie(COOKIE_NAME_JWT_TOKEN, token_of(user, SECONDS))
    _keep(answer, own, "", 0)
    return answer


def _oidc() -> Oidc:
    found = get_settings().login.oidc
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "the settings name no identity provider")
    return found


class _place:
    """Leave to ask the provider. Raises ProviderRefusal."""

    def __enter__(self) -> None:
        if (wait := rate.take(origin())) > 0:
            raise ProviderRefusal(f"too many log-ins from here: wait {wait:.0f} s")
        if len(_asking) >= AT_ONCE:
            raise ProviderRefusal("too many log-ins at once: try again in some seconds")
        _asking.add(self)

    def __exit__(self, *_: object) -> None:
        _asking.discard(self)


def _failed(error: Exception) -> HTMLResponse:
    """What the person reads. A provider that is away is told to whoever runs the platform."""
    away = not isinstance(error, ProviderRefusal)
    _say(f"{origin()}: {str(error)!r}")  # others wrote some of it
    said = "the identity provider cannot be used now; the log of airflow-api says why" if away else str(error)
    code = status.HTTP_502_BAD_GATEWAY if away else status.HTTP_403_FORBIDDEN
    back = get_settings().airflow.url.rstrip("/") + LOG_IN_PAGE
    said = f"{said[:1].upper()}{said[1:].rstrip('.')}."
    return HTMLResponse(_return_page("You are not logged in", said, back, at_once=False), code)


def _keep(answer: Response, own: str, value: str, seconds: int) -> None:
    """Have the browser keep what began, or forget it. The answer is for this person alone."""
    answer.set_cookie(
        state.name(own),
        value,
        max_age=seconds,
        path="/",
        secure=own.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    answer.headers["cache-control"] = "no-store"
    answer.headers["referrer-policy"] = "no-referrer"


def _page_with_button(base: str, label: str, begin: str) -> str:
    """Airflow's log-in page with the button. base: of its addresses. begin: where the button leads."""
    page = _TEMPLATES.get_template("index.html").render(backend_server_base_url=base)
    button = _TEMPLATES.get_template("button.html").render(label=label, begin=begin)
    before, root, after = page.partition(_ROOT)
    return f"{before}{button}{root}{after}"


def _return_page(heading: str, said: str, there: str, *, at_once: bool) -> str:
    """What is shown to a person who comes back; there: where to go then, by itself if `at_once`."""
    template = _TEMPLATES.get_template("came_back.html")
    return template.render(heading=heading, said=said, there=there, at_once=at_once, style=_style())


def _style() -> Markup:
    return Markup((_FOLDERS[0] / "style.css").read_text())  # noqa: S704 - our own file

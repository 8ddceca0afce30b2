"""Platform: the flow of lines as it is, what hurts and what to do; and the runbook as a page."""

from __future__ import annotations

import functools
import logging
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse

from sluice.monitoring.flow.platform import Pictures
from sluice.monitoring.flow.seen import FlowLook
from sluice.runtime.settings import get_settings
from sluice_airflow.api.security import Reader, may
from sluice_airflow.api.stores import Instance
from sluice_airflow.console import handbook
from sluice_airflow.console.page import HEADERS, page, render
from sluice_airflow.console.platform_view import MOST, SIGNS, WORDS, spark, verdict
from sluice_airflow.console.route import PageRoute
from sluice_airflow.console.runs import address, newest_runs

router = APIRouter(route_class=PageRoute)


@functools.cache
def platform() -> Pictures:
    """What this server knows of the platform."""
    # These clients log each attempt to reach a daemon that is away; the page says so already.
    for chatty in ("kafka", "thrift"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    return Pictures(FlowLook(get_settings(), newest_runs))


Shared = Annotated[Pictures, Depends(platform)]


@router.get("/platform")
def whole(request: Request, user: Reader, shared: Shared, settings: Instance) -> Response:
    """The page."""
    values = {**_now(shared), **_tables(shared, user, settings.api.viewers_see_keys)}
    return page(request, "platform.html", user, here="platform", title="Platform", **values)


@router.get("/platform/now")
def now(request: Request, user: Reader, shared: Shared) -> Response:
    """The flow, what hurts, the daemons: what changes within seconds."""
    return HTMLResponse(render(request, "platform_now.html", user, **_now(shared)), headers=HEADERS)


@router.get("/platform/tables")
def tables(request: Request, user: Reader, shared: Shared, settings: Instance) -> Response:
    """Freshness, lines at each hop, hot keys: what changes within minutes."""
    values = _tables(shared, user, settings.api.viewers_see_keys)
    return HTMLResponse(render(request, "platform_tables.html", user, **values), headers=HEADERS)


@router.get("/runbook")
def runbook(request: Request, user: Reader) -> Response:
    """The runbook."""
    found = handbook.shown(list(handbook.runbook().sections()))
    return page(request, "runbook.html", user, here="platform", title="Runbook", sections=found)


def _now(shared: Pictures) -> dict[str, Any]:
    picture = shared.picture()
    troubles = picture.troubles[:MOST]
    return {
        "picture": picture,
        "verdict": verdict(picture),
        "troubles": troubles,
        "more": len(picture.troubles) - len(troubles),
        "sections": handbook.shown(list(dict.fromkeys(each.section for each in troubles))),
        **_drawing(),
    }


def _tables(shared: Pictures, user: BaseUser, viewers_see_keys: bool) -> dict[str, Any]:
    """What the tables need. Hot keys may be clients' addresses: a viewer may see only their shares."""
    sees = viewers_see_keys or may("PUT", user)
    return {"picture": shared.picture(), "sees_keys": sees, **_drawing()}


def _drawing() -> dict[str, Any]:
    return {"signs": SIGNS, "words": WORDS, "spark": spark, "address": address}

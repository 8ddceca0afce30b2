"""Routes of the console: a request that fails is answered with a page that says why and what to do."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from sluice.results.query import BadQuery
from sluice.results.shape import TooManyRows
from sluice.tasks import TasksRefused
from sluice_airflow.api import errors
from sluice_airflow.api.reads import TooManyReaders
from sluice_airflow.console.page import page

#: What was written in a form is still in it, as long as this page is not left.
SENT_IN_VAIN = (
    "You are logged out, so nothing was saved. Log in in another tab, then reload this page: "
    "your browser sends the form again."
)


class PageRoute(APIRoute):
    """A route whose answers are pages, also when it fails."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Callable[[Request], Any] = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                answered: Response = await handle(request)
            except Exception as error:
                failure = _failure(error)
                if failure is None:
                    raise
                return failed(request, *failure)
            return answered

        return answer


def failed(request: Request, status: int, said: str) -> Response:
    """The page for a request that failed."""
    where = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
    logged_out, asks = status == HTTPStatus.UNAUTHORIZED, request.method == "GET"
    answer = page(
        request,
        "failed.html",
        None,
        status,
        title=HTTPStatus(status).phrase.capitalize(),
        said=SENT_IN_VAIN if logged_out and not asks else said,
        # Airflow's own address leads to the log-in page of whichever auth manager there is, and back.
        log_in=f"/api/v2/auth/login?next={quote(where, safe='')}" if logged_out and asks else "",
        beside=logged_out and not asks,
        again=where if asks and status >= HTTPStatus.INTERNAL_SERVER_ERROR else "",
    )
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        answer.headers["Retry-After"] = str(errors.AWAY_SECONDS)
    return answer


def _failure(error: Exception) -> tuple[int, str] | None:
    """The status and the sentence for an error; None for a defect."""
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, RequestValidationError):
        said = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
        return errors.UNPROCESSABLE, said
    if isinstance(error, TasksRefused):
        said = "; ".join(f"{each.pointer.lstrip('/')} {each.message}".strip() for each in error.problems)
        return errors.UNPROCESSABLE, said
    if isinstance(error, BadQuery | TooManyRows):
        return errors.UNPROCESSABLE, str(error)
    if isinstance(error, TooManyReaders):
        return errors.UNAVAILABLE, str(error)
    return errors.told(error)

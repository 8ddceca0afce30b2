"""Errors as answers: JSON pointers to the problems of a refused body, else a sentence."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from kafka.errors import KafkaError
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from sluice.archive.topic_deletion import TopicKept
from sluice.batch.rebuild.ask import NothingCountable
from sluice.batch.rebuild.scope import NothingToRebuild
from sluice.collection.errors import HostListError
from sluice.collection.inventory import InventoryError
from sluice.metrics.team_calls import TeamProcessUnavailable
from sluice.results.chart import TooManyValues
from sluice.results.layers import UnknownVersion
from sluice.results.query import BadQuery
from sluice.results.shape import TooManyRows
from sluice.speed.routed.report import NothingCounted
from sluice.state.backfilled import BackfillMissing
from sluice.state.finals import FinalMissing
from sluice.storage.hbase import HBaseUnavailable
from sluice.storage.hive import SqlUnavailable
from sluice.storage.tables.dashboards import UnknownDashboard
from sluice.storage.tables.statements import StatementMissing
from sluice.tasks import Problem, TasksRefused
from sluice.tasks.lists import ListInUse, UnknownList
from sluice.tasks.store import TaskChanged, UnknownTask
from sluice.tasks.topics import TopicInUse, UnknownTopic
from sluice.transmission.topics import TopicMissing
from sluice_airflow.api.accepted import NotAcceptable
from sluice_airflow.api.reads import TooManyReaders
from sluice_airflow.api.results_in import parameter

NOT_FOUND, NOT_ACCEPTABLE, CONFLICT, CHANGED, UNPROCESSABLE = 404, 406, 409, 412, 422
FAILED, UNAVAILABLE = 500, 503
#: When to ask again a store that is away.
AWAY_SECONDS = 10
_STATUS: dict[type[Exception], int] = {
    UnknownTask: NOT_FOUND,
    UnknownList: NOT_FOUND,
    TopicMissing: NOT_FOUND,
    StatementMissing: NOT_FOUND,
    NothingCounted: NOT_FOUND,
    ListInUse: CONFLICT,
    HostListError: CONFLICT,
    InventoryError: CONFLICT,
    TopicInUse: CONFLICT,
    TopicKept: CONFLICT,
    UnknownTopic: NOT_FOUND,
    NothingToRebuild: NOT_FOUND,
    NothingCountable: CONFLICT,
    TaskChanged: CHANGED,
    UnknownVersion: NOT_FOUND,
    UnknownDashboard: NOT_FOUND,
    NotAcceptable: NOT_ACCEPTABLE,
    FinalMissing: FAILED,
    BackfillMissing: FAILED,
    TeamProcessUnavailable: UNAVAILABLE,
}
_AWAY: dict[type[Exception], str] = {
    OperationalError: "PostgreSQL does not answer",
    NoConnection: "all connections to PostgreSQL are busy",
    KafkaError: "Kafka does not answer",
    HBaseUnavailable: "HBase does not answer",
    SqlUnavailable: "the SQL endpoint does not answer",
}


def install(app: FastAPI) -> None:
    """Let the app answer errors in this way."""
    app.add_exception_handler(TasksRefused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(BadQuery, _unanswerable)
    app.add_exception_handler(TooManyRows, _unanswerable)
    app.add_exception_handler(TooManyValues, _unanswerable)
    app.add_exception_handler(TooManyReaders, _busy)
    for kind in (*_STATUS, *_AWAY):
        app.add_exception_handler(kind, _told)


def problems(found: Iterable[Problem]) -> JSONResponse:
    listed = [{"pointer": each.pointer, "message": each.message} for each in found]
    return JSONResponse({"problems": listed}, UNPROCESSABLE)


def below(refused: TasksRefused, prefix: str) -> TasksRefused:
    """The same problems with pointers into what is at `prefix`, such as /0 in a list of one."""
    return TasksRefused(Problem(p.pointer.removeprefix(prefix), p.message) for p in refused.problems)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TasksRefused)  # noqa: S101 - what it is installed for
    return problems(error.problems)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Answer with FastAPI's findings; those in the body get a pointer to their place."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is installed for
    found = []
    for each in error.errors():
        if each["type"] == "json_invalid":
            found.append(Problem("", f"not JSON: {each['ctx']['error']} at character {each['loc'][-1]}"))
            continue
        where, *path = each["loc"]
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
        message = each["msg"][0].lower() + each["msg"][1:]
        found.append(Problem(pointer, message if where == "body" else f"{where} {path[-1]}: {message}"))
    return problems(found)


def told(error: Exception) -> tuple[int, str] | None:
    """The status and the sentence for an error that needs no more than a sentence; None for any other."""
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status, str(error)
    for kind, said in _AWAY.items():
        if isinstance(error, kind):
            return UNAVAILABLE, f"{said}: see `sluice status`"
    return None


async def _told(request: Request, error: Exception) -> JSONResponse:
    found = told(error)
    assert found is not None  # noqa: S101 - what it is installed for
    status, said = found
    again = {"Retry-After": str(AWAY_SECONDS)} if status == UNAVAILABLE else None
    return JSONResponse({"detail": said}, status, again)


async def _unanswerable(request: Request, error: Exception) -> JSONResponse:
    """Answer with what a query asks in vain, at the parameter that asks it."""
    field = str(error).partition(":")[0] if isinstance(error, BadQuery) else ""
    return problems([Problem(f"/{parameter(field)}" if field else "", str(error))])


async def _busy(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TooManyReaders)  # noqa: S101 - what it is installed for
    return JSONResponse({"detail": str(error)}, UNAVAILABLE, {"Retry-After": str(error.seconds)})

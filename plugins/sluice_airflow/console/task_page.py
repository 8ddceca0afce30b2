"""One statistic: its definition, its history, and what can be done with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Depends, Query, Request, Response, status
from fastapi.responses import HTMLResponse

from sluice.batch.backfill.ask import BadDays, ask
from sluice.batch.backfill.published import note, superseded
from sluice.stack.airflow.answers import AirflowError
from sluice.storage.tables.archive_expiry import DaysExpired
from sluice.storage.tables.backfills import Backfill, Backfills, DaysDropped
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.changes import ChangeAction, to_yaml
from sluice.tasks.versions import HistoryEntry
from sluice_airflow.api.security import Reader, Writer
from sluice_airflow.api.stores import Database, Instance, Tasks
from sluice_airflow.console import rebuilds
from sluice_airflow.console.day_work import DaysForm, DayWork, NoDays
from sluice_airflow.console.forms import Given
from sluice_airflow.console.page import HEADERS, lead_to, page, render
from sluice_airflow.console.rebuilds import RebuildForm, counted_again
from sluice_airflow.console.route import PageRoute
from sluice_airflow.console.skipped import skipped
from sluice_airflow.console.statistics import listed

router = APIRouter(route_class=PageRoute)


class Books:
    """What a task's page is made of."""

    def __init__(self, tasks: Tasks, database: Database, settings: Instance) -> None:
        self.tasks, self.database, self.settings = tasks, database, settings

    def backfills(self, name: str) -> list[Backfill]:
        """The backfills of the task's version, the newest first."""
        found = self.tasks.get(name)
        return Backfills(self.database).of_version(found.task_id, found.version)[::-1][:SHOWN]

    def superseded(self, backfills: list[Backfill]) -> str:
        """What is to be known of filled days that were published before; empty if there are none."""
        return note(superseded(self.database, backfills))

    def recounted(self, topic: str, task_id: int) -> list[datetime]:
        """When the task's periods begin that are being counted again, in order."""
        found = Recounts(self.database, topic).all()
        starts = (each.period_start for each in found if each.task_id == task_id and not each.switched)
        return sorted(datetime.fromtimestamp(start / 1000, UTC) for start in starts)


AtBooks = Annotated[Books, Depends()]


#: What a page says after something was done.
DONE = {
    "saved": "Saved. It takes effect with the next batch.",
    "paused": "Paused: lines are not counted until it is resumed.",
    "resumed": "Resumed: lines are counted from the next batch on.",
    "backfill": "The backfill was started.",
    **rebuilds.DONE,
}
#: History entries and backfills that a page shows, the newest first.
SHOWN = 50
Did = Annotated[str, Query(max_length=20)]


@router.get("/statistics/task/{name}")
def task(request: Request, user: Reader, books: AtBooks, name: str, *, did: Did = "") -> Response:
    """The page of one task."""
    return _shown(request, user, books, name, said=DONE.get(did, ""))


@router.get("/statistics/parts/backfills/{name}")
def backfills(request: Request, user: Reader, books: AtBooks, name: str) -> Response:
    """The backfills of the task's version, as a part of its page."""
    return HTMLResponse(render(request, "backfills.html", user, **_backfills(books, name)), headers=HEADERS)


@router.post("/statistics/task/{name}/pause")
def pause(request: Request, user: Writer, tasks: Tasks, name: str) -> Response:
    """Stop counting the task."""
    tasks.pause(name, user.get_name())
    return _back(request, name, "paused")


@router.post("/statistics/task/{name}/resume")
def resume(request: Request, user: Writer, tasks: Tasks, name: str) -> Response:
    """Count the task again."""
    tasks.resume(name, user.get_name())
    return _back(request, name, "resumed")


@router.get("/statistics/task/{name}/delete")
def ask_to_delete(request: Request, user: Writer, tasks: Tasks, name: str) -> Response:
    """Ask whether the task is to be deleted."""
    found = tasks.get(name)
    others = [each for each in tasks.list(found.topic) if each.name != name]
    return page(
        request,
        "delete.html",
        user,
        here="statistics",
        title=f"Delete {name}?",
        task=found,
        last=not others,
    )


@router.post("/statistics/task/{name}/delete")
def delete(request: Request, user: Writer, tasks: Tasks, name: str) -> Response:
    """Delete the task."""
    tasks.delete(name, user.get_name())
    return lead_to(request, "/statistics")


@router.post("/statistics/task/{name}/backfill")
def fill(request: Request, user: Writer, books: AtBooks, given: Given, name: str) -> Response:
    """Count the archived lines of some days that came before the task."""
    days = DaysForm.of(given)
    try:
        first, last = days.parsed
        if first is None or last is None:
            raise NoDays
        ask(books.settings, name, first, last, user.get_name())
        return _back(request, name, "backfill")
    except BadDays as error:
        wrong = error.plain
    except NoDays:
        wrong = "Name both days, like 2015-05-17."
    except (DaysDropped, DaysExpired) as error:
        wrong = str(error)
    except AirflowError as error:
        wrong = f"Airflow did not start it: {error}"
    code = status.HTTP_422_UNPROCESSABLE_CONTENT
    return _shown(request, user, books, name, fill=days._replace(wrong=wrong), code=code)


@router.post("/statistics/task/{name}/rebuild")
def count_again(request: Request, user: Writer, books: AtBooks, given: Given, name: str) -> Response:
    """Count the task again from the archive, or say what that would do."""
    topic = books.tasks.get(name).topic
    form = rebuilds.sent(books.settings, books.database, user, given, topic=topic, task=name)
    if form.did:
        return _back(request, name, form.did)
    return _shown(request, user, books, name, again=form, code=form.code)


def _backfills(books: Books, name: str) -> dict[str, object]:
    """What the part with the backfills shows."""
    found = books.backfills(name)
    return {"backfills": [DayWork.of_backfill(each) for each in found], "superseded": books.superseded(found)}


def _shown(
    request: Request,
    user: BaseUser,
    books: Books,
    name: str,
    *,
    said: str = "",
    fill: DaysForm = DaysForm(),  # noqa: B008 - it cannot be changed
    again: RebuildForm = RebuildForm(),  # noqa: B008
    code: int = 200,
) -> Response:
    found = books.tasks.get(name)
    history = [entry for entry in books.tasks.history(name) if entry.task_id == found.task_id]
    (own,) = listed(books.database, [found])
    return page(
        request,
        "task.html",
        user,
        code,
        here="statistics",
        title=name,
        task=found,
        books=own,
        written=to_yaml([found.spec.document()]),
        history=_newest_first(history),
        versions=_versions(history),
        skipped=skipped(books.database, found.topic, found.key),
        recounted=books.recounted(found.topic, found.task_id),
        **_backfills(books, name),
        again=counted_again(books.database, found.topic, found),
        name=name,
        said=said,
        fill=fill,
        again_form=again,
    )


def _versions(history: list[HistoryEntry]) -> dict[int, HistoryEntry]:
    """By version, the entry that made it."""
    made: dict[int, HistoryEntry] = {}
    for entry in history:
        if entry.action in (ChangeAction.CREATED, ChangeAction.CHANGED):
            made.setdefault(entry.version, entry)
    return made


def _newest_first(history: list[HistoryEntry]) -> list[HistoryEntry]:
    return history[::-1][:SHOWN]


def _back(request: Request, name: str, did: str) -> Response:
    return lead_to(request, f"/statistics/task/{name}?did={did}")

"""Value lists: what filters name with `set`."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response, status

from sluice.tasks import Problem, TasksRefused
from sluice.tasks.changes import ChangeAction
from sluice_airflow.api.models import ListChangeOut, ListIn, ListOut
from sluice_airflow.api.security import Reader, Writer
from sluice_airflow.api.stores import Lists

router = APIRouter(tags=["lists"])


@router.get("/lists")
def list_lists(user: Reader, lists: Lists) -> list[ListOut]:
    """The lists there are, by name, and which tasks use them."""
    return [ListOut.model_validate(asdict(each)) for each in lists.list()]


@router.get("/lists/{name}")
def get_list(name: str, user: Reader, lists: Lists) -> ListOut:
    """One list."""
    return ListOut.model_validate(asdict(lists.get(name)))


@router.put("/lists/{name}", responses={status.HTTP_201_CREATED: {"model": ListChangeOut}})
def put_list(name: str, user: Writer, lists: Lists, wanted: ListIn, response: Response) -> ListChangeOut:
    """Create the list; if its values changed, give it and every task with it a new version."""
    try:
        change = lists.apply(name, wanted.values, user.get_name())
    except TasksRefused as refused:
        raise TasksRefused(Problem("/values", p.message) for p in refused.problems) from None
    response.status_code = (
        status.HTTP_201_CREATED if change.action == ChangeAction.CREATED else status.HTTP_200_OK
    )
    return ListChangeOut.model_validate(asdict(change))


@router.delete("/lists/{name}")
def delete_list(name: str, user: Writer, lists: Lists) -> ListOut:
    """Delete a list that no task uses. The answer is the list as it was."""
    return ListOut.model_validate(asdict(lists.delete(name, user.get_name())))

"""Every hostile statement and setting of a session, at the SQL endpoint, as each role."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from pyhive import exc
from thrift.transport.TTransport import TTransportException

from sluice.runtime.settings import Settings
from sluice.stack.users import Users
from sluice.storage.hive import connect
from tests.attack.callers import ROLES
from tests.attack.outcome import Outcome
from tests.security.test_guard_lists import statements
from tests.security.test_sql_endpoint import A_VIEWER_MAY_NOT, AN_ANALYST_MAY_NOT, NOBODY_MAY, OPTIONS
from tests.sql.test_door import REFUSED

SECONDS = 120
#: The table that holds lines in the lists of statements, as the endpoint names it.
LINES = "logs"


def run(settings: Settings) -> Outcome:
    """Send what each role may not send; all of it must be refused, and the endpoint must live on."""
    outcome = Outcome("hostile statements and settings x roles")
    before = pids(settings)
    with logins(settings) as people:
        for role, login in people.items():
            with closing(session(settings, login)) as connection:
                for statement in hostile(role):
                    said = ask(connection, statement)
                    outcome.add(role, *judged(role, statement, said))
            for key, value in REFUSED.items():
                said = opened(settings, login, key, value)
                outcome.add(role, *judged(role, f"a session with {key}={value}", said))
    if pids(settings) != before:
        outcome.add("the endpoint", "started again", "the endpoint was ended by a statement")
    return outcome


def hostile(role: str) -> list[str]:
    """What this role may not send."""
    found = [*NOBODY_MAY, *OPTIONS, *AN_ANALYST_MAY_NOT, *statements("never")]
    if role == "viewer":
        found += [*A_VIEWER_MAY_NOT, *(f"SELECT * FROM {table}" for table in (LINES, "raw"))]
    return list(dict.fromkeys(found))


@contextmanager
def logins(settings: Settings) -> Iterator[dict[str, dict[str, str]]]:
    """A user of each role, and the platform's own (service)."""
    users = Users(settings)
    with ExitStack() as made:
        people: dict[str, dict[str, str]] = {}
        for role in ROLES:
            name = f"{role}-{uuid.uuid4().hex[:8]}"
            people[role] = {"user": name, "password": users.add(name, role)}
            made.callback(users.remove, name)
        yield people


def session(settings: Settings, login: dict[str, str], **options: Any) -> Any:
    where = settings.hive.model_copy(update=login)
    return connect(where, SECONDS, database=settings.hive.database, **options)


def ask(connection: Any, statement: str) -> str:
    """Why the statement is refused; empty if it is not."""
    with closing(connection.cursor()) as cursor:
        try:
            cursor.execute(statement)
        except exc.Error as error:
            return str(error) or type(error).__name__
    return ""


def opened(settings: Settings, login: dict[str, str], key: str, value: str) -> str:
    """Why no session is opened with this setting; empty if one is."""
    try:
        with closing(session(settings, login, configuration={key: value})):
            return ""
    except (exc.Error, TTransportException) as error:
        return str(error) or type(error).__name__


def judged(role: str, what: str, said: str) -> tuple[str, str]:
    """The column in which it counts, and what is wrong with it."""
    return ("refused", "") if said else ("ACCEPTED", f"{role}: {what}")


def pids(settings: Settings) -> set[int]:
    """The processes of the endpoint."""
    from sluice.stack.process_groups import of_daemon

    return {process.pid for process in of_daemon(settings, "sql") if process.name() == "java"}

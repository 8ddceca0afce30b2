"""Dashboards: charts that a user pinned, in an order.

A chart is an address, its query string, which this store does not read: whoever draws it checks it each
time. Only the owner changes a dashboard; everybody else may look at one that is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from sluice.storage.tables import history, locks
from sluice.storage.tables.schema import dashboards

#: Dashboards of one user, and charts on one dashboard.
MOST, MOST_CHARTS = 20, 24
#: Characters of a name or a title, and of an address.
LONGEST_NAME, LONGEST_ADDRESS = 80, 2_000
#: Shared dashboards of others that a list has.
MOST_LISTED = 500

_columns = dashboards.c


class UnknownDashboard(LookupError):
    """There is no such dashboard, or it is not for this user."""

    def __init__(self, number: int) -> None:
        super().__init__(f"there is no dashboard {number}, or it is not shared with you")


class DashboardChanged(ValueError):
    """The owner changed it elsewhere since the caller read it; `dashboard` is how it stands."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.dashboard = dashboard
        super().__init__(
            f"{dashboard.name!r} was changed elsewhere meanwhile, so nothing is saved: look at it as it is "
            "now, then change it again"
        )


class DashboardRefused(ValueError):
    """A change that cannot be stored; `field` is name, title, address, charts or dashboards."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class PinnedChart(NamedTuple):
    """A chart of a dashboard."""

    title: str
    address: str


class ListedDashboard(NamedTuple):
    """A dashboard as a list shows it."""

    id: int
    owner: str
    name: str
    changed_at: datetime


@dataclass(frozen=True)
class Dashboard:
    """A dashboard as it stands."""

    id: int
    owner: str
    name: str
    shared: bool
    version: int
    changed_at: datetime
    charts: Sequence[PinnedChart] = ()


class Dashboards:
    """Reads and writes dashboards; every method is one transaction."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def of(self, user: str) -> list[Dashboard]:
        """The user's own, by name."""
        query = sa.select(dashboards).where(_columns.owner == user).order_by(_columns.name)
        with self._engine.connect() as connection:
            return [_dashboard(row) for row in connection.execute(query)]

    def shared_with(self, user: str) -> list[ListedDashboard]:
        """Those that others share, by name; at most `MOST_LISTED`."""
        shown = (_columns.id, _columns.owner, _columns.name, _columns.changed_at)
        query = sa.select(*shown).where(_columns.shared, _columns.owner != user)
        with self._engine.connect() as connection:
            query = query.order_by(_columns.name, _columns.owner).limit(MOST_LISTED)
            return [ListedDashboard(*row) for row in connection.execute(query)]

    def get(self, number: int, user: str) -> Dashboard:
        """One that the user may look at. Raises UnknownDashboard."""
        with self._engine.connect() as connection:
            return _one(connection, number, user, shared=True)

    def own(self, number: int, user: str) -> Dashboard:
        """One that the user may change. Raises UnknownDashboard."""
        with self._engine.connect() as connection:
            return _one(connection, number, user)

    def create(
        self, user: str, name: str, charts: Sequence[PinnedChart] = (), *, shared: bool = False
    ) -> Dashboard:
        """A new dashboard of the user. Raises DashboardRefused."""
        values: dict[str, Any] = {"owner": user, "name": checked("name", name), "shared": shared}
        values |= {"version": 1, "charts": _written(charts)}
        with self._writing() as connection:
            return _made(connection, values)

    def pin(self, number: int, user: str, chart: PinnedChart) -> Dashboard:
        """Put a chart at the end of the user's dashboard. Raises UnknownDashboard and DashboardRefused."""
        with self._writing() as connection:
            before = _one(connection, number, user)
            now = _update(connection, before, charts=_written([*before.charts, chart]))
            _record(connection, user, "changed", before, now)
            return now

    def change(
        self, number: int, user: str, version: int, *, name: str, shared: bool, charts: Sequence[PinnedChart]
    ) -> Dashboard:
        """Change the dashboard, if the version that the user saw is still the newest.

        Raises UnknownDashboard, DashboardChanged and DashboardRefused.
        """
        values = {"name": checked("name", name), "shared": shared, "charts": _written(charts)}
        with self._writing() as connection:
            before = _seen(connection, number, user, version)
            if values["name"] != before.name:
                _demand_free(connection, user, str(values["name"]))
            now = _update(connection, before, **values)
            _record(connection, user, "changed", before, now)
            return now

    def duplicate(self, number: int, user: str) -> Dashboard:
        """A copy, for this user, of one that the user may look at; it is not shared.

        Raises UnknownDashboard and DashboardRefused.
        """
        with self._writing() as connection:
            found = _one(connection, number, user, shared=True)
            taken = set(connection.scalars(sa.select(_columns.name).where(_columns.owner == user)))
            name = next(name for name in _copies(found.name) if name not in taken)
            values: dict[str, Any] = {"owner": user, "name": name, "shared": False}
            values |= {"version": 1, "charts": _written(found.charts)}
            return _made(connection, values)

    def delete(self, number: int, user: str, version: int) -> None:
        """Delete the dashboard, if the version that the user saw is still the newest.

        Raises UnknownDashboard and DashboardChanged.
        """
        with self._writing() as connection:
            found = _seen(connection, number, user, version)
            connection.execute(sa.delete(dashboards).where(_columns.id == number))
            _record(connection, user, "deleted", found, None)

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A transaction; only one runs at a time, so that the bounds and the names hold."""
        with self._engine.begin() as connection:
            locks.take(connection, locks.Lock.DASHBOARDS)
            yield connection


def checked(field: str, text: str) -> str:
    """A name or a title as it is stored: with single spaces. Raises DashboardRefused."""
    found = " ".join(text.split())
    if not found:
        raise DashboardRefused(field, "it is empty: write some letters")
    if len(found) > LONGEST_NAME:
        raise DashboardRefused(field, f"it has {len(found)} characters: at most {LONGEST_NAME} are kept")
    if not found.isprintable():
        raise DashboardRefused(field, f"{found!r} has a character that nobody can see: leave it out")
    return found


def _written(charts: Sequence[PinnedChart]) -> list[list[str]]:
    if len(charts) > MOST_CHARTS:
        raise DashboardRefused(
            "charts", f"a dashboard has at most {MOST_CHARTS}: remove one, or take another dashboard"
        )
    for each in charts:
        if len(each.address) > LONGEST_ADDRESS or not each.address.isprintable():
            raise DashboardRefused("address", f"{each.title!r} has one of over {LONGEST_ADDRESS} characters")
    return [[checked("title", each.title), each.address] for each in charts]


def _dashboard(row: sa.Row[Any]) -> Dashboard:
    charts = tuple(PinnedChart(title, address) for title, address in row.charts)
    return Dashboard(**{**row._mapping, "charts": charts})


def _one(connection: sa.Connection, number: int, user: str, *, shared: bool = False) -> Dashboard:
    """The dashboard, if it is the user's own or, with `shared`, a shared one."""
    allowed = (_columns.owner == user) | _columns.shared if shared else _columns.owner == user
    row = connection.execute(sa.select(dashboards).where(_columns.id == number, allowed)).first()
    if row is None:
        raise UnknownDashboard(number)
    return _dashboard(row)


def _seen(connection: sa.Connection, number: int, user: str, version: int) -> Dashboard:
    found = _one(connection, number, user)
    if found.version != version:
        raise DashboardChanged(found)
    return found


def _made(connection: sa.Connection, values: dict[str, Any]) -> Dashboard:
    made = _insert(connection, values)
    _record(connection, made.owner, "created", None, made)
    return made


def _record(
    connection: sa.Connection, user: str, action: str, before: Dashboard | None, after: Dashboard | None
) -> None:
    """Write the change into the history: names, whether they are shared, and the charts' titles."""

    def told(board: Dashboard | None) -> object:
        if board is None:
            return ""
        shown: dict[str, object] = {"name": board.name, "shared": board.shared}
        return {**shown, "charts": [chart.title for chart in board.charts]}

    name = next(str(each.id) for each in (after, before) if each is not None)
    history.record(
        connection,
        who=user,
        what="dashboard",
        name=name,
        action=action,
        before=told(before),
        after=told(after),
    )


def _insert(connection: sa.Connection, values: dict[str, Any]) -> Dashboard:
    count = sa.select(sa.func.count()).where(_columns.owner == values["owner"])
    if connection.execute(count).scalar_one() >= MOST:
        raise DashboardRefused("dashboards", f"you have {MOST}, which is the most: delete one first")
    _demand_free(connection, values["owner"], values["name"])
    return _dashboard(connection.execute(sa.insert(dashboards).values(**values).returning(dashboards)).one())


def _demand_free(connection: sa.Connection, user: str, name: str) -> None:
    query = sa.select(_columns.id).where(_columns.owner == user, _columns.name == name)
    if connection.execute(query).first() is not None:
        raise DashboardRefused("name", f"you have a dashboard {name!r} already: choose another name")


def _update(connection: sa.Connection, before: Dashboard, **values: Any) -> Dashboard:
    statement = sa.update(dashboards).where(_columns.id == before.id).returning(dashboards)
    now = {"version": before.version + 1, "changed_at": sa.func.now()}
    return _dashboard(connection.execute(statement.values(**values, **now)).one())


def _copies(name: str) -> Iterator[str]:
    """Names for copies: the name itself, then with (2), (3) and so on."""
    yield name
    for number in range(2, MOST + 2):
        end = f" ({number})"
        yield name[: LONGEST_NAME - len(end)] + end

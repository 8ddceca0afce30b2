"""An endpoint that gives a statement little, and statements that run in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pyhive import exc

from sluice.runtime.settings import get_settings
from sluice.storage.tables import statements
from tests.sql import alone
from tests.sql.alone import Endpoint

SECONDS = 240
#: It takes no memory.
FOR_EVER = "SELECT count(*) FROM range(1000000000000000) WHERE id % 7 = 8"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    limits = {
        "statement_seconds": SECONDS,
        "result_rows": 200_000,
        "result_bytes": 32 << 20,
        "statements_of_user": 2,
        "wait_seconds": 2,
    }
    with alone.running(tmp_path_factory.mktemp("statements"), **limits) as found:
        yield found
        assert found.process.poll() is None, alone.log_of(found)[-3000:]


def reason(error: exc.Error) -> str:
    return str(error.args[0].status.errorMessage)


class Running:
    """A statement that runs in a thread of its own, and how it ended."""

    def __init__(self, endpoint: Endpoint, statement: str, user: str) -> None:
        self.said = "0 rows"
        self._thread = threading.Thread(target=self._run, args=(endpoint, statement, user))
        self._thread.start()

    def _run(self, endpoint: Endpoint, statement: str, user: str) -> None:
        try:
            self.said = f"{len(endpoint.ask(statement, user, 2 * SECONDS).rows)} rows"
        except exc.OperationalError as error:
            self.said = reason(error)

    def end(self) -> str:
        self._thread.join(2 * SECONDS)
        return self.said


def runs(endpoint: Endpoint) -> list[statements.Statement]:
    """What of FOR_EVER runs now, as the platform sees it."""
    found = statements.running(endpoint.settings)
    return [each for each in found if each.state == "runs" and FOR_EVER in each.statement]


@pytest.fixture
def instance(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The endpoint is that of the instance, for commands and pages."""
    settings = endpoint.settings
    given = {"INSTANCE": settings.instance, "HOME": settings.home, "PORT_BASE": settings.port_base}
    for name, value in given.items():
        monkeypatch.setenv(f"SLUICE_{name}", str(value))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()

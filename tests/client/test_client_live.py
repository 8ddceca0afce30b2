"""The client and its notebook against the running stack."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import pytest

from sluice.client import Client, SqlFailed, Unreachable, about
from sluice.runtime.settings import ROOT, Settings
from sluice.stack.users import Users
from tests.results.hours import Hours, counting, direct

__all__ = ["counting"]  # a fixture

pytestmark = pytest.mark.stack

NOTEBOOK = ROOT / "docs" / "notebooks" / "first_chart.ipynb"


@pytest.fixture
def login(stack: Settings) -> Iterator[tuple[str, str]]:
    """The name and the password of a new viewer."""
    users, name = Users(stack), f"client-{uuid.uuid4().hex[:8]}"
    yield name, users.add(name, "viewer")
    users.remove(name)


@pytest.fixture
def ann(stack: Settings, login: tuple[str, str]) -> Iterator[Client]:
    with Client(stack.airflow.url, *login, sql_port=stack.hive.port) as client:
        yield client


def test_both_layers_come_as_one_table(ann: Client, counting: Hours) -> None:
    counting.commit(counting.partials)
    counting.publish()
    found = ann.results(counting.name)
    assert found.column("count").to_pylist() == [row[2] for row in direct()]
    assert [span["state"] for span in about(found)["periods"]] == ["final", "open"]
    assert counting.name in {task.name for task in ann.tasks()}
    assert next(ann.events(counting.name)).commit == 1


def test_sql_answers_as_a_table(ann: Client) -> None:
    statement = """
        SELECT 1 AS n, CAST('2015-05-17' AS DATE) AS day, TIMESTAMP '2015-05-17 10:00:00' AS at,
               map('a', 1) AS tags, 'x' AS text, 1.5D AS value
    """
    (row,) = ann.sql(statement).to_pylist()
    assert (row["n"], row["day"].isoformat(), row["at"].isoformat(), row["text"], row["value"]) == (
        1,
        "2015-05-17",
        "2015-05-17T10:00:00+00:00",
        "x",
        1.5,
    )
    assert json.loads(row["tags"]) == {"a": 1}
    with pytest.raises(SqlFailed, match="nothing"):
        ann.sql("SELECT * FROM nothing")
    assert ann.sql("SELECT 2 AS n").to_pylist() == [{"n": 2}]


def test_a_wrong_password_opens_no_sql(stack: Settings, login: tuple[str, str]) -> None:
    wrong = Client(stack.airflow.url, login[0], "wrong", sql_port=stack.hive.port)
    with pytest.raises(Unreachable, match="refuses the user or the password"):
        wrong.sql("SELECT 1")


def test_the_notebook_runs_cell_by_cell(
    stack: Settings, login: tuple[str, str], counting: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.commit(counting.partials)
    counting.publish()
    mpl.use("Agg")
    variables = {
        "SLUICE_URL": stack.airflow.url,
        "SLUICE_USER": login[0],
        "SLUICE_PASSWORD": login[1],
        "SLUICE_SQL_PORT": str(stack.hive.port),
        "SLUICE_TASK": counting.name,
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    space: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), space)  # noqa: S102
    assert int(space["chart"].to_numpy().sum()) == space["table"].num_rows == 144
    assert len(space["axes"].get_lines()) == 3
    assert space["first"].commit == 1

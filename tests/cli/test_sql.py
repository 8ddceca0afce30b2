"""`sluice sql` when the endpoint refuses the statement."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from sluice.cli.errors import FAILED, explain
from sluice.cli.main import app
from sluice.storage import hive
from sluice.storage.hive import Hive, SqlFailed

#: Spark's own words for WHERE status = 200.
CAST = (
    '[CAST_INVALID_INPUT] The value \'/a\' of the type "STRING" cannot be cast to "BIGINT" because it is '
    "malformed. Correct the value as per the syntax, or change its target type. SQLSTATE: 22018"
)


@pytest.mark.parametrize(
    ("reason", "hinted"), [(CAST, True), ("[TABLE_OR_VIEW_NOT_FOUND] v_hits cannot be found.", False)]
)
def test_a_text_compared_with_a_number_is_answered_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, reason: str, hinted: bool
) -> None:
    class Refusing(Hive):
        """Refuses every statement, as the endpoint does."""

        def query(self, sql: str, params: Any = None) -> NoReturn:
            raise SqlFailed(sql, reason)

    monkeypatch.setattr(hive, "Hive", Refusing)
    refused = CliRunner().invoke(app, ["sql", "SELECT * FROM v_hits WHERE status = 200"]).exception
    assert refused is not None
    found = explain(refused)
    assert found is not None
    assert found.message.startswith(reason)
    assert found.code == FAILED
    assert found.message.endswith("such as status = '200'.") is hinted

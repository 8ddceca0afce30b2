"""What one statement may take of the SQL endpoint, and what others get while it tries to take more."""

from __future__ import annotations

import time
from contextlib import closing, suppress

import pytest
from pyhive import exc
from typer.testing import CliRunner

from sluice.cli.main import app as commands
from sluice.cli.query_options import BadOption
from sluice.storage.tables import statements
from sluice.storage.tables.statements import StatementMissing
from sluice_lab.waiting import until
from tests.sql.alone import Endpoint
from tests.sql.limited import FOR_EVER, SECONDS, Running, endpoint, instance, reason, runs

__all__ = ["endpoint", "instance"]  # fixtures

pytestmark = pytest.mark.slow

#: In which another user's small query is answered, on a machine that does much else: before the others end.
SMALL_SECONDS = 200
VALUES_SECONDS = 80
HOSTILE = {
    "collect_list": "SELECT size(collect_list(repeat(CAST(id AS STRING), 9))) FROM range(1000000000)",
    "for ever": FOR_EVER,
    "cross join": "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.id + b.id = -1",
    "range": "SELECT count(DISTINCT repeat(CAST(id AS STRING), 9)) FROM range(1000000000000)",
    "recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
    "one value": "SELECT length(concat_ws('', collect_list(repeat('a', 30000000)))) FROM range(100)",
    "large rows": "SELECT id, repeat('a', 1000000) FROM range(100000)",
    "many rows": "SELECT id FROM range(1000000000)",
    "many parts": "SELECT id, repeat('a', 1000) FROM range(0, 100000000, 1, 10000)",
    "no stop within": "SELECT aggregate(sequence(1, 1000000), 0D, (a, x) -> a + aggregate("
    "sequence(1, 1000000), 0D, (b, y) -> b + x * y)) FROM range(8)",
}
#: Two at a time, which is as many as a user may run.
PAIRS = tuple(zip(list(HOSTILE)[::2], list(HOSTILE)[1::2], strict=True))
MALFORMED = {
    "sql.statement_bytes": f"SELECT '{'a' * (1 << 20)}'",
    "sql.nesting": "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "sql.values": f"SELECT 1 WHERE 1 IN ({', '.join(map(str, range(20_000)))})",
}


@pytest.mark.parametrize("setting", MALFORMED)
def test_a_statement_s_shape_is_bounded(endpoint: Endpoint, setting: str) -> None:
    with pytest.raises(exc.OperationalError) as refused:
        endpoint.ask(MALFORMED[setting], "eve")
    assert setting in reason(refused.value)


def test_ten_thousand_values_are_answered_soon(endpoint: Endpoint) -> None:
    values = ", ".join(map(str, range(9_000)))
    began = time.monotonic()
    asked = f"SELECT count(*) FROM range(10000) WHERE id IN ({values})"
    assert endpoint.ask(asked, "ann").rows == [(9_000,)]
    assert time.monotonic() - began < VALUES_SECONDS  # 50,000 took 90 s


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_hostile_statements_end_and_others_are_answered(endpoint: Endpoint, names: tuple[str, ...]) -> None:
    hostile = [Running(endpoint, HOSTILE[name], "eve") for name in names]
    waited = []
    for _ in range(3):
        time.sleep(1)
        began = time.monotonic()
        assert endpoint.ask("SELECT count(*) FROM range(1000)", "ann", SECONDS).rows == [(1000,)]
        waited.append(time.monotonic() - began)
    assert max(waited) < SMALL_SECONDS
    cancel_all(endpoint, "eve")
    said = [each.end() for each in hostile]
    assert not any(each.endswith(" rows") for each in said), said
    assert endpoint.process.poll() is None


LARGE = {
    "sql.result_rows": "SELECT id FROM range(0, 1000000, 1, 100)",
    "sql.result_bytes": "SELECT id, repeat('a', 10000) FROM range(0, 100000, 1, 1000)",
}


@pytest.mark.parametrize("setting", LARGE)
def test_a_result_that_is_too_large_says_how_to_narrow_it(endpoint: Endpoint, setting: str) -> None:
    with pytest.raises(exc.OperationalError) as refused:
        endpoint.ask(LARGE[setting], "ann")
    assert setting in reason(refused.value)
    assert "LIMIT" in reason(refused.value)


def test_large_results_within_the_bounds_come_whole(endpoint: Endpoint) -> None:
    rows = endpoint.ask("SELECT id, id * 2 FROM range(100000)", "ann").rows
    assert sorted(rows) == [(n, 2 * n) for n in range(100_000)]
    assert len(endpoint.ask("SELECT id FROM range(1000000000) LIMIT 500", "ann").rows) == 500


def cancel_all(endpoint: Endpoint, user: str) -> None:
    for each in statements.running(endpoint.settings, user):
        with suppress(StatementMissing):
            statements.cancel(endpoint.settings, each.id, user)


def of(endpoint: Endpoint, user: str) -> list[tuple[str, str]]:
    """The id and state of FOR_EVER, as often as the user sees it run."""
    return [(row[0], row[4]) for row in endpoint.ask("SHOW STATEMENTS", user).rows if FOR_EVER in row[5]]


def test_statements_are_seen_and_cancelled_by_their_user_and_the_platform(endpoint: Endpoint) -> None:
    running = Running(endpoint, f"{FOR_EVER} -- \x1b[2J", "eve")
    (found,) = until(lambda: runs(endpoint))
    assert found.user == "eve"
    assert "\\u001b[2J" in found.statement
    assert endpoint.ask("SHOW STATEMENTS", "ann").rows == []
    with pytest.raises(exc.OperationalError, match="no statement"):
        endpoint.ask(f"CANCEL STATEMENT '{found.id}'", "ann")
    with pytest.raises(StatementMissing):
        statements.cancel(endpoint.settings, found.id, "ann")
    assert statements.cancel(endpoint.settings, found.id).id == found.id
    assert "cancelled by an operator" in running.end()
    running = Running(endpoint, FOR_EVER, "eve")
    ((own, _),) = until(lambda: [each for each in of(endpoint, "eve") if each[1] == "runs"])
    endpoint.ask(f"cancel statement '{own}';", "eve")
    assert "cancelled by its user" in running.end()
    with pytest.raises(StatementMissing):
        statements.cancel(endpoint.settings, own)


@pytest.mark.usefixtures("instance")
def test_an_operator_lists_and_cancels_at_the_terminal(endpoint: Endpoint) -> None:
    running = Running(endpoint, f"{FOR_EVER} -- \x1b[2J", "eve")
    (found,) = until(lambda: runs(endpoint))
    listed = CliRunner().invoke(commands, ["sql", "--list"])
    assert found.id in listed.output.split()
    assert "\x1b" not in listed.output
    ended = CliRunner().invoke(commands, ["sql", "--cancel", found.id])
    assert ended.output.startswith(f"cancelled {found.id} of eve: SELECT count(*)")
    assert "cancelled by an operator" in running.end()
    again = CliRunner().invoke(commands, ["sql", "--cancel", found.id])
    assert isinstance(again.exception, StatementMissing)
    for wrong in (["sql"], ["sql", "--list", "SELECT 1"], ["sql", "--list", "--cancel", "1"]):
        assert isinstance(CliRunner().invoke(commands, wrong).exception, BadOption)


def test_a_user_s_third_statement_waits_and_is_told(endpoint: Endpoint) -> None:
    two = [Running(endpoint, FOR_EVER, "eve") for _ in range(2)]
    until(lambda: [state for _, state in of(endpoint, "eve")] == ["runs", "runs"])
    with pytest.raises(exc.OperationalError) as refused:
        endpoint.ask("SELECT 1", "eve")
    assert "sql.statements_of_user" in reason(refused.value)
    assert endpoint.ask("SELECT 1", "bob").rows == [(1,)]
    for id_, _ in of(endpoint, "eve"):  # and can still get in
        endpoint.ask(f"CANCEL STATEMENT '{id_}'", "eve")
    assert all("cancelled" in each.end() for each in two)


def test_a_statement_ends_with_its_client(endpoint: Endpoint) -> None:
    connection = endpoint.session("bob")
    connection._transport._trans.setTimeout(2_000)
    with closing(connection.cursor()) as cursor, pytest.raises(Exception, match="timeout"):
        cursor.execute(FOR_EVER)
    connection._transport.close()
    until(lambda: of(endpoint, "bob") == [])

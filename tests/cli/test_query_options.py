"""What is refused of the options of `sluice results` and `sluice lines` names the option and the value."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.cli.errors import USAGE, explain
from sluice.cli.main import app
from sluice.cli.query_options import naming, span
from sluice.results.query import BadQuery
from sluice.results.written_query import WrittenQuery, query
from tests.engine.samples import active, spec


def refused(*arguments: str) -> str:
    """What a command says that is refused before it reads anything."""
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "1000"})
    if isinstance(shown.exception, SystemExit):
        assert shown.exit_code == USAGE
        return shown.output
    assert shown.exception is not None
    found = explain(shown.exception)
    assert found is not None
    assert found.code == USAGE
    return found.message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--from", "2024-03-02", "--to", "2024-03-01"),
            "--from 2024-03-02 is after --to 2024-03-01: swap them",
        ),
        (
            ("--layer", "online", "--from", "2024-03-02", "--to", "2024-03-01"),
            "--from 2024-03-02 is after --to 2024-03-01: swap them",
        ),
        (("--to", "noon"), "--to: 'noon' is no time: write a day"),
        (("--top", "0"), "--top '0': Input should be greater than or equal to 1"),
        (("--top", "many"), "--top 'many': write how many series"),
        (("--where", "status=1", "--where", "path~=("), r"--where 'path~=(': '(' "),
        (("--rollup", "0s"), "--rollup '0s': "),
        (("--rollup", "path,0s"), "--rollup 'path,0s': "),
        (("--version", "0"), "'--version': Input should be greater"),
    ],
)
def test_an_option_of_results_that_cannot_be_read_is_named(options: tuple[str, ...], said: str) -> None:
    assert said in refused("results", "hits", *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--period", "noon"), "--period: 'noon' is no time"),
        (("--period", "2024-03-01", "--where", "status~=("), "--where 'status~=(': '(' "),
        (("--period", "2024-03-01", "--where", "status"), "--where 'status': write DIMENSION=VALUE"),
        (("--period", "2024-03-01", "--version", "0"), "'--version': Input should be greater"),
    ],
)
def test_an_option_of_lines_that_cannot_be_read_is_named(options: tuple[str, ...], said: str) -> None:
    assert said in refused("lines", "hits", *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"top": "10:nope"}, r"^--top '10:nope': sample .* has no 'nope': choose of count$"),
        ({"where": ["nope=1"]}, r"^--where 'nope=1': sample .* has no 'nope': "),
        ({"rollup": ["nope"]}, r"^--rollup 'nope': sample .* has no 'nope': "),
        ({"rollup": ["90s"]}, r"^--rollup '90s': '90s' is no multiple of "),
        ({"sort": ["nope:desc"]}, r"^--sort 'nope:desc': sample .* has no 'nope': "),
    ],
)
def test_an_option_that_the_task_cannot_answer_is_named(options: dict[str, Any], said: str) -> None:
    (task,) = active(spec())
    with pytest.raises(BadQuery, match=said), naming(options):
        query(task.spec.name, given=WrittenQuery(**options)).check(task)


@pytest.mark.parametrize("when", [(None, "2024-03-01"), ("2024-03-01", "2024-03-01"), (None, None)])
def test_times_in_order_are_taken(when: tuple[str | None, str | None]) -> None:
    assert [each is None for each in span(*when)] == [each is None for each in when]

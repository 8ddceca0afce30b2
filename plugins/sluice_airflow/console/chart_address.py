"""A chart as an address: its query string, written in one way, and checked each time that it is read."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from pydantic import ValidationError

from sluice.results.query import BadQuery
from sluice.storage.tables.dashboards import LONGEST_NAME
from sluice_airflow.console.chart_in import ChartIn

_LISTS = frozenset({"metric", "split", "where"})
#: As many as the longest lists of a chart have together.
_MOST_FIELDS = 2_000


def address_of(chart: ChartIn) -> str:
    """The query string of a chart, without what is as usual and without the choice of a frame."""
    given = chart.model_dump(exclude_defaults=True, exclude={"bare"})
    for name in _LISTS & given.keys():
        given[name] = [each for each in given[name] if each]
    return urlencode(given, doseq=True)


def read_address(text: str) -> ChartIn:
    """The chart of a query string. Raises BadQuery; whether the task has what it asks for is not known."""
    fields: dict[str, str | list[str]] = {}
    try:
        for name, value in parse_qsl(text, max_num_fields=_MOST_FIELDS):
            if name in _LISTS:
                fields[name] = [*fields.get(name, ()), value]
            else:
                fields[name] = value
        chart = ChartIn.model_validate(fields)
    except ValidationError as error:
        said = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise BadQuery(f"address: it is no chart's: {said}") from None
    except ValueError:
        raise BadQuery(f"address: it has over {_MOST_FIELDS} parts: ask for fewer") from None
    if not chart.task:
        raise BadQuery("address: it names no task: add task=NAME")
    return chart


def about(chart: ChartIn) -> str:
    """What a chart shows, in a few words: count of hits by status where status=404."""
    wanted = chart.given()
    said = f"{', '.join(wanted.metrics) or 'the first metric'} of {chart.task}"
    if split := [each for each in chart.split if each]:
        said += f" by {', '.join(split)}"
    if wanted.where:
        said += f" where {', '.join(wanted.where)}"
    return said


def title_of(chart: ChartIn) -> str:
    """The title that a chart is pinned with unless somebody chooses another."""
    said = " ".join(about(chart).removeprefix("the first metric of ").split())
    return said if len(said) <= LONGEST_NAME else f"{said[: LONGEST_NAME - 1]}…"

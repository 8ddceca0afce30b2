"""Results over REST, from layers in memory; the login is a double (a real one: test_results_live.py)."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import psutil
import pyarrow as pa
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.results.reader import read
from sluice.results.shape import TooManyRows
from sluice.storage.hbase import HBaseUnavailable
from sluice_lab.waiting import SECONDS
from tests.plugins.application import API, Login
from tests.plugins.served import served
from tests.results.questions import DAY_NUMBER, FIRST, SKETCHED, a_million, query, stored, task
from tests.results.stored import DAY, Stored

ADDRESS = f"{API}/tasks/sample/results"
ARROW = "application/vnd.apache.arrow.stream"
GIVEN = [(hour, hour % 3, hour % 5, hour % 7) for hour in range(60)]


@pytest.fixture
def layers(app: FastAPI, client: TestClient, login: Login) -> Stored:
    """Three days, the first of which is published; a viewer is logged in."""
    from sluice_airflow.api import stores

    own = replace(stored(task(SKETCHED), GIVEN, frozenset({DAY_NUMBER})), block_bytes=3_000)
    app.dependency_overrides[stores.layers] = lambda: own
    login.as_("viewer")
    return own


def rows(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


def problem(answer: httpx.Response) -> tuple[str, str]:
    assert answer.status_code == 422, answer.text
    (found,) = answer.json()["problems"]
    return found["pointer"], found["message"]


def test_json_has_the_rows_and_where_each_period_is_from(client: TestClient, layers: Stored) -> None:
    answer = client.get(ADDRESS, params={"metrics": "count,p50"})
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["task"] == {
        "name": "sample",
        "id": 1,
        "version": 1,
        "period": "1h",
        "timezone": "UTC",
    }
    assert [(each["name"], each["kind"]) for each in found["columns"]] == [
        ("period", "period"),
        ("client", "dimension"),
        ("path", "dimension"),
        ("count", "metric"),
        ("p50", "metric"),
        ("p50_error", "error"),
        ("state", "state"),
    ]
    wanted = read(layers, query(metrics=("count", "p50")))[0].table()
    assert [row["count"] for row in found["rows"]] == wanted.column("count").to_pylist()
    assert [
        (each["state"], each["periods"], each["commit"], each["run_id"]) for each in found["periods"]
    ] == [
        ("final", 24, None, f"run-{DAY_NUMBER}"),
        ("open", 36, 7, None),
    ]
    assert (found["periods"][0]["first"], found["periods"][0]["last"]) == (
        "2015-05-17T00:00:00Z",
        "2015-05-17T23:00:00Z",
    )
    assert found["next"] is None
    assert "link" not in answer.headers


def test_a_page_says_where_its_own_rows_are_from(client: TestClient, layers: Stored) -> None:
    found = client.get(ADDRESS, params={"offset": 22, "limit": 4}).json()
    assert [(each["first"], each["last"]) for each in found["periods"]] == [
        (found["rows"][0]["period"], found["rows"][1]["period"]),
        (found["rows"][2]["period"], found["rows"][3]["period"]),
    ]


@pytest.mark.slow
def test_csv_and_arrow_have_the_same_rows(client: TestClient, layers: Stored) -> None:
    wanted = rows(client.get(ADDRESS))
    text = client.get(ADDRESS, headers={"accept": "text/csv"})
    assert text.headers["content-disposition"] == 'attachment; filename="sample.csv"'
    lines = list(csv.DictReader(io.StringIO(text.text)))
    assert [(row["period"], row["client"], row["state"]) for row in lines] == [
        (row["period"], row["client"], row["state"]) for row in wanted
    ]
    stream = client.get(ADDRESS, headers={"accept": ARROW})
    table = pa.ipc.open_stream(stream.content).read_all()
    assert [row["top3"] and json.loads(row["top3"]) for row in table.to_pylist()] == [
        row["top3"] for row in wanted
    ]
    assert table.drop_columns(["top3"]).to_pylist() == (
        read(layers, query())[0].table().drop_columns(["top3"]).to_pylist()
    )
    said: dict[bytes, bytes] = {}
    for _, metadata in pa.ipc.open_stream(stream.content).iter_batches_with_custom_metadata():
        said |= dict(metadata or {})
    about = json.loads(said[b"sluice"])
    plain = client.get(ADDRESS).json()
    assert about == {name: plain[name] for name in ("task", "columns", "periods", "next")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({"since": "2015-05-18", "until": "2015-05-19"}, {"since": FIRST + DAY, "until": FIRST + 2 * DAY}),
        ({"since": FIRST + DAY}, {"since": FIRST + DAY}),
        ({"since": "2015-05-18T02:00:00+02:00"}, {"since": FIRST + DAY}),
        ({"metrics": "count"}, {"metrics": ("count",)}),
        ({"rollup": "total,1d", "metrics": ["count", "sum"]}, {"dimensions": (), "period": "1d"}),
        ({"rollup": ["client", "all"]}, {"dimensions": ("client",), "period": "all"}),
    ],
)
def test_parameters_ask_what_a_query_asks(
    client: TestClient, layers: Stored, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    found = rows(client.get(ADDRESS, params=params))
    wanted = read(layers, query(**fields))[0].table().to_pylist()
    assert [(row["period"], row["count"]) for row in found] == [
        (row["period"].isoformat().replace("+00:00", "Z"), row["count"]) for row in wanted
    ]


@pytest.mark.slow
def test_conditions_top_lists_and_orders(client: TestClient, layers: Stored) -> None:
    either = rows(client.get(ADDRESS, params={"where": ["client=c0", "client=c1", "path^=/img"]}))
    assert {row["client"] for row in either} == {"c0", "c1"}
    assert all(row["path"].startswith("/img") for row in either)
    pattern = rows(client.get(ADDRESS, params={"where": "path~=[.]png$"}))
    assert {row["path"] for row in pattern} == {"/img/x.png"}
    top = rows(client.get(ADDRESS, params={"top": "1:sum", "rollup": "client,all"}))
    assert [row["client"] is None for row in top].count(True) == 1
    by_sum = rows(client.get(ADDRESS, params={"sort": "sum:desc", "limit": 5}))
    assert [row["sum"] for row in by_sum] == sorted((row["sum"] for row in by_sum), reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["json", "csv", "arrow"])
def test_pages_follow_each_other_to_the_end(client: TestClient, layers: Stored, style: str) -> None:
    whole = rows(client.get(ADDRESS))
    address, number = f"{ADDRESS}?limit=25&where=client~%3D%5Ec&format={style}", 0
    while address:
        answer = client.get(address)
        found = {
            "json": lambda a: len(a.json()["rows"]),
            "csv": lambda a: len(a.text.splitlines()) - 1,
            "arrow": lambda a: pa.ipc.open_stream(a.content).read_all().num_rows,
        }[style](answer)
        number += found
        address = answer.links.get("next", {}).get("url", "")
        if style == "json":
            assert (answer.json()["next"] or "") == address
        assert not address or found == 25
        assert not address or dict(parse_qsl(urlsplit(address).query))["where"] == "client~=^c"
    assert number == len(whole) == 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("text/*", "text/csv"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"),
        ("text/csv;q=0.5, application/json;q=0.4", "text/csv"),
        ("application/json;q=0, */*", "text/csv"),
        (f"application/json;q=0.9,{ARROW}", ARROW),
        ("TEXT/CSV", "text/csv"),
        ("text/csv; header=present", "text/csv"),
    ],
)
def test_the_format_is_the_one_that_the_client_takes(
    client: TestClient, layers: Stored, accept: str | None, wanted: str
) -> None:
    answer = client.get(ADDRESS, headers={"accept": accept or ""})
    assert answer.headers["content-type"].startswith(wanted)
    named = client.get(ADDRESS, params={"format": "csv"}, headers={"accept": accept or ""})
    assert named.headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize("accept", ["image/png", "text/html", "json", "a" * 5000, ";q=1", "*/*;q=0"])
def test_a_client_that_takes_no_format_is_told_which_there_are(
    client: TestClient, layers: Stored, accept: str
) -> None:
    answer = client.get(ADDRESS, headers={"accept": accept})
    assert (answer.status_code, ARROW in answer.json()["detail"]) == (406, True)
    assert len(answer.text) < 500


@pytest.mark.slow
def test_a_tag_saves_the_read_until_the_answer_changes(client: TestClient, layers: Stored) -> None:
    first = client.get(ADDRESS)
    tag = first.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
    assert first.headers["cache-control"] == "private, no-cache"
    layers.read_blocks = 0
    for known in (tag, f'"other", W/{tag}', "*"):
        again = client.get(ADDRESS, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert layers.read_blocks == 0
    for other in (
        {"params": {"limit": 3}},
        {"params": {"format": "csv"}},
        {"headers": {"accept-encoding": "identity"}},
    ):
        own = client.get(ADDRESS, **other)
        assert own.headers["etag"] != tag
    layers.head += 1
    changed = client.get(ADDRESS, headers={"if-none-match": tag})
    assert (changed.status_code, changed.headers["etag"] != tag) == (200, True)
    layers.final_days = layers.final_days | {DAY_NUMBER + 1}
    published = client.get(ADDRESS, headers={"if-none-match": changed.headers["etag"]})
    assert published.status_code == 200
    assert published.headers["etag"] not in {tag, changed.headers["etag"]}
    layers.of = replace(layers.of, version=2)
    assert client.get(ADDRESS).headers["etag"] != published.headers["etag"]


@pytest.mark.slow
def test_an_answer_that_a_commit_overtook_has_no_tag(client: TestClient, layers: Stored) -> None:
    final = {"until": "2015-05-18"}
    reading = layers.open

    def overtaken(*args: Any) -> Any:
        layers.head += 1
        return reading(*args)

    layers.open = overtaken  # type: ignore[method-assign]
    assert "etag" not in client.get(ADDRESS).headers
    assert "etag" in client.get(ADDRESS, params=final).headers


@pytest.mark.slow
def test_a_large_answer_is_streamed_and_has_a_tag_if_it_is_final(
    client: TestClient, layers: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow.api import results

    whole = {style: client.get(ADDRESS, params={"format": style}) for style in ("json", "csv", "arrow")}
    monkeypatch.setattr(results, "HELD_BYTES", 100)
    monkeypatch.setattr(results, "PIECE_ROWS", 7)
    for style, held in whole.items():
        streamed = client.get(ADDRESS, params={"format": style})
        assert "content-length" not in streamed.headers
        assert "etag" not in streamed.headers
        if style == "arrow":
            read_all = [pa.ipc.open_stream(each.content).read_all().to_pylist() for each in (held, streamed)]
            assert read_all[0] == read_all[1]
        else:
            assert streamed.content == held.content
    final = client.get(ADDRESS, params={"until": "2015-05-18"})
    assert (len(rows(final)), "content-length" in final.headers) == (24, False)
    assert (
        client.get(
            ADDRESS, params={"until": "2015-05-18"}, headers={"if-none-match": final.headers["etag"]}
        ).status_code
        == 304
    )


@pytest.mark.parametrize(
    ("params", "pointer", "said"),
    [
        ({"since": "noon"}, "/since", "since: 'noon' is no time: write a day"),
        ({"since": "2015-05-17T10:00:00 02:00"}, "/since", "is no time"),
        ({"until": "9" * 18}, "/until", "is beyond all times"),
        (
            {"since": "2015-05-18", "until": "2015-05-17"},
            "/since",
            "since 2015-05-18 is after until 2015-05-17: swap them",
        ),
        ({"where": "client"}, "/where", "where 'client': write DIMENSION=VALUE"),
        ({"where": "colour=red"}, "/where", "sample (1v1) has no 'colour': choose of client, path"),
        ({"where": "path~=("}, "/where", "where: pattern: "),
        ({"where": "path~=(?=x)"}, "/where", "where: pattern: "),
        ({"where": "path=" + "x" * 5000}, "/where", "where: values"),
        ({"metrics": "colour"}, "/metrics", "metrics: sample (1v1) has no 'colour'"),
        ({"top": "many"}, "/top", "top 'many': write how many series"),
        ({"top": "0"}, "/top", "top: n: "),
        ({"top": "3:colour"}, "/top", "has no 'colour'"),
        ({"top": "3", "rollup": "total"}, "/top", "has one series here"),
        ({"rollup": "colour"}, "/rollup", "has no 'colour'"),
        ({"rollup": "1h,1d"}, "/rollup", "name one period"),
        ({"rollup": "90m"}, "/rollup", "is no multiple of"),
        ({"sort": "colour"}, "/sort", "has no 'colour'"),
        ({"sort": "count:down"}, "/sort", "write a column"),
        ({"sort": "count", "limit": "100001"}, "/sort", "leave out sort"),
        ({"limit": "0"}, "/limit", "query limit: "),
        ({"limit": "10000001"}, "/limit", "query limit: "),
        ({"limit": "x"}, "/limit", "query limit: "),
        ({"limit": "9" * 5000}, "/limit", "query limit: "),
        ({"offset": "-1"}, "/offset", "query offset: "),
        ({"version": "0"}, "/version", "query version: "),
        ({"format": "xml"}, "/format", "query format: "),
        ({"wher": "client=c0"}, "/wher", "there is no parameter 'wher': choose of since"),
        ({"since": ["2015-05-17", "2015-05-18"]}, "/since", "since is given 2 times"),
    ],
)
def test_a_refusal_names_the_parameter_and_the_remedy(
    client: TestClient, layers: Stored, params: dict[str, Any], pointer: str, said: str
) -> None:
    found = problem(client.get(ADDRESS, params=params))
    assert (found[0], said in found[1]) == (pointer, True), found


@pytest.mark.slow
@given(
    given=st.dictionaries(
        st.sampled_from(["since", "until", "where", "metrics", "top", "rollup", "sort", "limit", "format"]),
        st.text(max_size=12) | st.sampled_from(["c", "client=c0", "count", "1d", "1:count", "json"]),
        max_size=4,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_parameters_get_an_answer_or_a_refusal(
    client: TestClient, layers: Stored, given: dict[str, str]
) -> None:
    answer = client.get(ADDRESS, params=given)
    assert answer.status_code in (200, 400, 422), answer.text


def test_what_is_not_there_or_away_is_said(client: TestClient, layers: Stored, database: sa.Engine) -> None:
    from sluice.results.layers import UnknownVersion
    from sluice.tasks.store import UnknownTask

    def missing(error: Exception) -> httpx.Response:
        def fails(*args: Any) -> Any:
            raise error

        layers.task = fails  # type: ignore[method-assign]
        return client.get(ADDRESS)

    assert missing(UnknownTask("there is no task 'sample'")).status_code == 404
    assert missing(UnknownVersion("no version 9")).status_code == 404
    too_many = missing(TooManyRows("a sort"))
    assert problem(too_many)[0] == ""
    away = missing(HBaseUnavailable("here", 10, OSError()))
    assert (away.status_code, away.headers["retry-after"]) == (503, "10")


@pytest.mark.slow
def test_who_finds_no_place_is_told_when_to_ask_again(
    client: TestClient, layers: Stored, app: FastAPI
) -> None:
    from sluice_airflow.api import stores
    from sluice_airflow.api.reads import Reads

    app.dependency_overrides[stores.reads] = lambda: Reads(places=0, patience=0.05)
    busy = client.get(ADDRESS)
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "5")
    app.dependency_overrides[stores.reads] = lambda: Reads(places=0, waiting=0)
    assert client.get(ADDRESS).status_code == 503
    one = Reads(places=1)
    app.dependency_overrides[stores.reads] = lambda: one
    for params in (
        {},
        {"where": "colour=red"},
        {"since": "noon"},
        {"format": "csv"},
    ):  # each gives its place back
        assert client.get(ADDRESS, params=params).status_code in (200, 422)
    assert client.get(ADDRESS).status_code == 200


@pytest.mark.slow
def test_every_example_of_the_document_is_answered(client: TestClient, layers: Stored) -> None:
    from sluice_airflow.api.models import ResultsOut

    layers.of = replace(layers.of, spec=layers.of.spec.model_copy(update={"name": "sample"}))
    operation = client.get(f"{API}/openapi.json").json()["paths"][f"{API}/tasks/{{name}}/results"]["get"]
    tried = 0
    for parameter in operation["parameters"]:
        for example in parameter["schema"].get("examples", []):
            answer = client.get(ADDRESS, params={parameter["name"]: str(example).replace("status", "client")})
            assert answer.status_code == 200, (parameter["name"], example, answer.text)
            tried += 1
    assert tried > 15
    content = operation["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/csv", ARROW}
    example = content["application/json"]["example"]
    assert ResultsOut.model_validate(example).model_dump(mode="json").keys() == example.keys()
    own = client.get(ADDRESS, params={"limit": 2}).json()
    assert ResultsOut.model_validate(own).task.name == "sample"
    assert own.keys() == example.keys()
    assert own["periods"][0].keys() == example["periods"][0].keys() | {"commit"}


@pytest.mark.slow
@pytest.mark.parametrize("style", ["json", "csv", "arrow"])
def test_a_million_rows_stream_in_bounded_memory(app: FastAPI, layers: Stored, style: str) -> None:
    from sluice_airflow.api import stores

    million = a_million()
    app.dependency_overrides[stores.layers] = lambda: million
    process, size, most = psutil.Process(), 0, 0
    with served(app) as address:
        httpx.get(f"{address}{ADDRESS}", params={"format": style}, timeout=SECONDS)
        before, began = process.memory_info().rss, process.cpu_times()
        every = {"format": style, "limit": 2_000_000}
        with httpx.stream("GET", f"{address}{ADDRESS}", params=every, timeout=SECONDS) as answer:
            for piece in answer.iter_raw():
                size += len(piece)
                most = max(most, process.memory_info().rss - before)
    spent = sum(process.cpu_times()[:2]) - sum(began[:2])
    print(f"{style}: {size / 1e6:.0f} MB, {1e6 / spent:,.0f} rows/s of CPU, {most / 1e6:.0f} MB more memory")
    assert size > 10_000_000
    assert most < 256 << 20

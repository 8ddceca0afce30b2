"""The pages about statistics as a browser without scripts gets them; the login and the stores are doubles."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from fastapi.testclient import TestClient

from sluice.batch.backfill.published import note
from sluice.storage.tables import schema
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.days import Days, published_now
from sluice.tasks.store import TaskStore
from tests.engine.samples import line, spec
from tests.plugins.application import Login

pytestmark = pytest.mark.slow

PAGES = "/console/statistics"
OWN = {"origin": "http://127.0.0.1:21080"}
HOSTILE = "<script>alert(1)</script>\"'&"
LINES = [line(status="404"), line(path="/blog/a"), line(path="/shop", size="-")]
STATUS = {"name": "status", "extract": {"field": "status"}}


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the topic's newest lines are."""
    from sluice_airflow.console import editor

    found = [*LINES]
    monkeypatch.setattr(editor, "sample", lambda settings, topic, count: found)
    return found


@pytest.fixture
def ann(client: TestClient, login: Login) -> TestClient:
    """A client of somebody who may write."""
    login.as_("user")
    client.headers.update(OWN)
    return client


@pytest.fixture
def tasks(database: sa.Engine) -> TaskStore:
    return TaskStore(database)


class Page:
    """A page's form, as a browser would send it."""

    def __init__(self, client: TestClient, answer: Any) -> None:
        self.client, self.status, self.text = client, answer.status_code, answer.text
        self.fields: list[tuple[str, str]] = []
        for tag in re.findall(r"<input[^>]*>", self.text):
            found = dict(re.findall(r'(\w+)="([^"]*)"', tag))
            if "name" in found and (found.get("type") != "checkbox" or " checked" in tag):
                self.fields.append((found["name"], html.unescape(found.get("value", ""))))
        for name, inner in re.findall(
            r'<textarea[^>]*name="([^"]*)"[^>]*>\n?(.*?)</textarea>', self.text, re.S
        ):
            self.fields.append((name, html.unescape(inner)))
        for name, inner in re.findall(r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>', self.text, re.S):
            chosen = re.search(r'value="([^"]*)" selected', inner) or re.search(r'value="([^"]*)"', inner)
            self.fields.append((name, html.unescape(chosen[1]) if chosen else ""))

    def send(self, to: str = "draft", **changes: str) -> Page:
        """Send the form with these fields changed; a button is a field too."""
        kept = [(name, text) for name, text in self.fields if name not in changes]
        data = Mapping_of([*kept, *changes.items()])
        return Page(self.client, self.client.post(f"{PAGES}/{to}", data=data, follow_redirects=False))

    def value(self, name: str) -> str:
        return next(text for key, text in self.fields if key == name)

    def buttons(self, name: str) -> list[str]:
        return [html.unescape(v) for v in re.findall(rf'<button name="{name}" value="([^"]*)"', self.text)]

    @property
    def task(self) -> dict[str, Any]:
        """The task as the page's YAML has it."""
        (found,) = yaml.safe_load(self.value("yaml"))
        return dict(found)


def Mapping_of(pairs: list[tuple[str, str]]) -> Mapping[str, list[str]]:
    made: dict[str, list[str]] = {}
    for name, text in pairs:
        made.setdefault(name, []).append(text)
    return made


def opened(client: TestClient, path: str) -> Page:
    return Page(client, client.get(f"{PAGES}{path}"))


def test_from_a_piece_of_a_line_to_a_saved_task(ann: TestClient, tasks: TaskStore) -> None:
    page = opened(ann, "/new")
    begin = LINES[0].decode().index("404")
    assert f"0:{begin}:{begin + 3}" in page.buttons("point")
    page = page.send(point=f"0:{begin}:{begin + 3}")
    assert "found in 3 of 3 lines" in page.text
    best = next(each for each in page.buttons("use") if json.loads(each)["to"] == "dimensions")
    assert json.loads(best)["extract"] == {"field": "status"}
    page = page.send(use=best)
    assert page.task["dimensions"] == [STATUS]
    assert (page.value("dimensions/0/extract/field"), page.value("dimensions/0/name")) == ("status", "status")
    assert page.value("name") == page.task["name"] == "logs_by_status"
    assert "3 of 3 lines are counted" in page.text
    review = page.send("review", name="hits")
    assert ("+  - name: status" in html.unescape(review.text), review.status) == (True, 200)
    assert [task.name for task in tasks.list()] == []  # nothing is saved before somebody says so
    assert review.send("save").status == 303
    saved = tasks.get("hits")
    assert (saved.spec.document()["dimensions"], saved.created_by) == ([STATUS], "ann")


def test_a_task_is_named_after_what_it_counts_by_unless_somebody_named_it(
    ann: TestClient, tasks: TaskStore
) -> None:
    tasks.apply([spec(name="logs_by_status")], "bob")
    wish = json.dumps({"to": "dimensions", "extract": {"field": "status"}, "name": "status", "value": "404"})
    page = opened(ann, "/new")
    assert page.send(use=wish).value("name") == "logs_by_status_2"
    assert page.send(use=wish, name="mine").value("name") == "mine"
    assert page.send(use=wish, name="").send(name="").value("name") == ""  # deleted by hand
    other = json.dumps({**json.loads(wish), "name": "A/b " + "c" * 90})
    assert page.send(use=other).value("name") == "logs_by_a_b_" + "c" * 38


def test_the_measure_and_a_condition_come_from_pieces_too(ann: TestClient) -> None:
    page = opened(ann, "/new")
    begin = LINES[0].decode().index("512")
    page = page.send(point=f"0:{begin}:{begin + 3}")
    measure = next(each for each in page.buttons("use") if json.loads(each)["to"] == "measure")
    page = page.send(use=measure)
    assert page.task["measure"] == {"field": "bytes", "type": "number"}
    assert page.task["metrics"] == ["count", "sum", "avg"]
    assert "1 without a measure" in page.text
    begin = LINES[1].decode().index("blog")
    page = page.send(point=f"1:{begin}:{begin + 4}")
    only = next(each for each in page.buttons("use") if json.loads(each)["to"] == "where")
    page = page.send(use=only)
    assert page.task["where"][0]["filter"] == {"mode": "white", "values": ["blog"]}
    assert "<b>1 kept</b>, 1 filtered out, 1 where nothing is extracted" in page.text


def test_the_form_and_the_yaml_say_the_same_both_ways(ann: TestClient) -> None:
    page = opened(ann, "/new").send(do="add:dimensions")
    page = page.send(**{"name": "hits", "dimensions/0/name": "s", "dimensions/0/extract/field": "status"})
    assert page.task["dimensions"] == [{"name": "s", "extract": {"field": "status"}}]
    changed = {**page.task, "period": "5m", "dimensions": [STATUS, {**STATUS, "name": "again"}]}
    page = page.send(do="yaml", yaml=yaml.safe_dump(changed))
    assert (page.value("period"), page.value("dimensions/1/name")) == ("5m", "again")
    page = page.send(do="up:dimensions/1")
    assert [each["name"] for each in page.task["dimensions"]] == ["again", "status"]
    page = page.send(do="remove:dimensions/0")
    assert [each["name"] for each in page.task["dimensions"]] == ["status"]


def test_what_is_wrong_stands_at_the_field_and_nothing_that_was_typed_is_lost(ann: TestClient) -> None:
    page = opened(ann, "/new").send(do="add:dimensions")
    page = page.send(
        "review",
        **{"name": "Hits", "period": "1x", "dimensions/0/extract/regex": "(", "dimensions/0/name": "a"},
    )
    assert page.status == 422
    for field in ("name", "period"):
        assert re.search(rf'id="{field}"[^>]*aria-invalid="true"', page.text), field
        assert re.search(rf'id="wrong-{field}"[^>]*>\s*<p class="wrong">', page.text), field
    assert re.search(r'id="itself-dimensions-0-extract"[^>]*>\s*<p class="wrong">', page.text)
    assert (page.value("period"), page.value("dimensions/0/extract/regex")) == ("1x", "(")


@pytest.mark.parametrize(
    "text", ["name: [", "a: 1\na: 2", "- name: a\n- name: b", "just text", "&a [*a]", "dimensions: 5"]
)
def test_yaml_that_is_no_task_is_told_and_kept(ann: TestClient, text: str) -> None:
    page = opened(ann, "/new").send(do="yaml", yaml=text)
    assert (page.status, page.value("yaml").strip()) == (200, text)
    assert 'class="problems"' in page.text or 'class="wrong"' in page.text
    assert page.send("review", do="yaml", yaml=text).status == 422


def test_a_task_in_sql_is_changed_in_the_yaml(ann: TestClient, tasks: TaskStore) -> None:
    sql = "SELECT status, count(*) FROM logs GROUP BY status, period('1m')"
    page = opened(ann, "/new").send(do="yaml", yaml=yaml.safe_dump({"name": "hits", "sql": sql}))
    assert ("written as SQL" in page.text, "3 of 3 lines" in page.text) == (True, True)
    assert page.send("review").send("save").status == 303
    assert tasks.get("hits").spec.sql == sql


def test_of_two_users_the_second_is_told_and_loses_nothing(
    ann: TestClient, login: Login, tasks: TaskStore
) -> None:
    tasks.apply([spec(name="hits")], "ann")
    own = opened(ann, "/task/hits/edit").send("review", period="5m")
    tasks.apply([spec(name="hits", period="1h")], "bob")
    told = own.send("save")
    assert (told.status, "bob made its version 2" in told.text) == (412, True)
    assert "+  period: 5m" in html.unescape(told.text)
    assert tasks.get("hits").spec.period == "1h"
    again = told.send("draft", do="yaml").send("review")
    assert ("-  period: 1h" in again.text, again.send("save").status) == (True, 303)
    assert (tasks.get("hits").version, tasks.get("hits").spec.period) == (3, "5m")


def test_two_new_tasks_of_one_name_do_not_meet(ann: TestClient, tasks: TaskStore) -> None:
    page = opened(ann, "/new").send("review", name="hits")
    tasks.apply([spec(name="hits")], "bob")
    told = page.send("save")
    assert (told.status, "already, made by bob" in told.text) == (412, True)


def test_an_earlier_version_is_restored_as_a_new_one(ann: TestClient, tasks: TaskStore) -> None:
    tasks.apply([spec(name="hits")], "ann")
    tasks.apply([spec(name="hits", period="1h")], "bob")
    assert f"{PAGES}/task/hits/edit?version=1" in opened(ann, "/task/hits").text
    review = opened(ann, "/task/hits/edit?version=1").send("review")
    assert "-  period: 1h" in review.text
    review.send("save")
    assert (tasks.get("hits").version, tasks.get("hits").spec) == (3, spec(name="hits"))
    assert ann.get(f"{PAGES}/task/hits/edit?version=9").status_code == 404


def test_a_duplicate_is_a_new_task_beside_the_first(ann: TestClient, tasks: TaskStore) -> None:
    tasks.apply([spec(name="hits", period="1h")], "ann")
    page = opened(ann, "/new?like=hits")
    assert (page.value("name"), page.value("period")) == ("hits-copy", "1h")
    page.send("review").send("save")
    assert [task.name for task in tasks.list()] == ["hits", "hits-copy"]


def test_pause_resume_and_delete_which_asks_first(ann: TestClient, tasks: TaskStore) -> None:
    tasks.apply([spec(name="hits")], "ann")
    answer = ann.post(f"{PAGES}/task/hits/pause")
    assert ("Paused" in answer.text, tasks.get("hits").state) == (True, "paused")
    ann.post(f"{PAGES}/task/hits/resume")
    assert tasks.get("hits").state == "active"
    asked = ann.get(f"{PAGES}/task/hits/delete")
    assert "the last statistic of topic logs" in asked.text
    assert tasks.get("hits").state == "active"
    assert "Nothing is counted yet" in ann.post(f"{PAGES}/task/hits/delete").text
    assert tasks.list() == []
    assert ann.get(f"{PAGES}/task/hits").status_code == 404


def test_a_reader_is_offered_nothing_and_refused_everything(
    client: TestClient, login: Login, tasks: TaskStore
) -> None:
    tasks.apply([spec(name="hits")], "ann")
    login.as_("viewer")
    client.headers.update(OWN)
    for path in ("", "/task/hits"):
        text = client.get(PAGES + path).text
        assert "hits" in text
        assert not re.search(r"statistics/new|/edit|/delete|<button>(Pause|Resume|Fill)", text)
    for path in ("/new", "/task/hits/edit", "/task/hits/delete"):
        assert client.get(PAGES + path).status_code == 403, path
    for path in ("draft", "review", "save", "task/hits/pause", "task/hits/delete", "task/hits/backfill"):
        assert client.post(f"{PAGES}/{path}", data={"name": "x"}).status_code == 403, path
    assert tasks.get("hits").state == "active"


def test_hostile_lines_and_values_are_shown_and_not_run(
    ann: TestClient, lines: list[bytes], tasks: TaskStore
) -> None:
    lines[:] = [line(path=f"/{HOSTILE}"), HOSTILE.encode(), b"\xff\x00" + HOSTILE.encode()]
    page = opened(ann, "/new")
    for each in page.buttons("point"):
        assert "<script>alert" not in page.send(point=each).text
    page = page.send(do="yaml", yaml=yaml.safe_dump({"name": HOSTILE, HOSTILE: HOSTILE}))
    assert "<script>alert" not in page.text
    hostile = {"mode": "white", "values": [HOSTILE]}
    tasks.apply([spec(name="hits", dimensions=[{**STATUS, "filter": hostile}])], HOSTILE)
    for path in ("", "/task/hits", "/task/hits/edit", f"?q={HOSTILE}"):
        text = ann.get(PAGES + path).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text


def test_the_list_is_searched_filtered_and_sorted(
    ann: TestClient, tasks: TaskStore, database: sa.Engine
) -> None:
    tasks.apply([spec(name="hits"), spec(name="sizes", topic="shop")], "ann")
    tasks.apply([spec(name="agents")], "bob")
    tasks.pause("hits", "ann")
    commit = {"topic": "logs", "seq": 1, "token": "a", "start": {}, "end": {}, "tasks": [], "counts": {}}
    figures = {"sluice_task_skipped_lines_total": [[{"topic": "logs", "task": "hits"}, 17]]}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits).values(**commit))
        connection.execute(sa.insert(schema.figures).values(at=datetime.now(UTC), figures=figures))

    def names(query: str) -> list[str]:
        return re.findall(r'<th scope="row"><a [^>]*>([^<]+)', ann.get(f"{PAGES}?{query}").text)

    assert names("") == ["agents", "hits", "sizes"]
    assert names("q=LOGS+ann") == ["hits"]
    assert names("state=paused") == ["hits"]
    assert names("sort=fresh") == ["agents", "hits", "sizes"]
    assert names("sort=owner") == ["hits", "sizes", "agents"]
    assert names("q=nothing") == []
    row = re.search(r"<tr>\s*<th scope=\"row\"><a [^>]*>hits.*?</tr>", ann.get(PAGES).text, re.S)
    assert row is not None
    assert ("17" in row[0], " s ago" in row[0]) == (True, True)


def test_a_backfill_is_asked_for_and_its_days_are_checked(
    ann: TestClient, tasks: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.batch.backfill.ask import BadDays
    from sluice_airflow.console import task_page

    tasks.apply([spec(name="hits")], "ann")
    asked: list[Any] = []
    monkeypatch.setattr(task_page, "ask", lambda settings, *given: asked.append(given))
    days = {"first": "2015-05-17", "last": "2015-05-18"}
    assert "was started" in ann.post(f"{PAGES}/task/hits/backfill", data=days).text
    assert [str(each) for each in asked[0]] == ["hits", "2015-05-17", "2015-05-18", "ann"]
    wrong = ann.post(f"{PAGES}/task/hits/backfill", data={**days, "last": "soon"})
    assert (wrong.status_code, "Name both days" in wrong.text) == (422, True)

    def refuse(*given: Any) -> None:
        raise BadDays("--to 2099-01-01 is in the future: there are no lines of that day")

    monkeypatch.setattr(task_page, "ask", refuse)
    wrong = ann.post(f"{PAGES}/task/hits/backfill", data=days)
    assert "the day to 2099-01-01 is in the future" in wrong.text
    assert 'value="2015-05-17"' in wrong.text


def test_filled_days_that_were_published_before_are_named_with_the_remedy(
    ann: TestClient, tasks: TaskStore, database: sa.Engine
) -> None:
    tasks.apply([spec(name="hits")], "ann")
    book = Backfills(database)
    day = date(2015, 5, 17)
    asked = book.request(1, 1, topic="logs", first_day=day, last_day=day, user="ann")
    book.set_finished(asked.id)
    pages = (f"{PAGES}/task/hits", "/console/statistics/parts/backfills/hits")
    assert not any("superseded" in ann.get(each).text for each in pages)
    Days(database, "logs").set_computed(day, cut={}, run_id="r", tasks_seq=0, raw_lines=1, lines=1)
    with database.begin() as connection:
        published_now(connection, "logs", day, {})
        filled = {"topic": "logs", "task_id": 1, "version": 1, "day": day, "backfill_id": asked.id}
        rest = {"revision": 1, "lines": 1, "projected": True}
        connection.execute(sa.insert(schema.backfill_days).values(**filled, **rest))
    for each in pages:
        assert note([day]) in html.unescape(ann.get(each).text)


def test_periods_that_are_being_counted_again_are_said(
    ann: TestClient, tasks: TaskStore, database: sa.Engine
) -> None:
    tasks.apply([spec(name="hits")], "ann")
    assert "being counted again" not in ann.get(f"{PAGES}/task/hits").text
    with database.begin() as connection:
        for start, switched in ((1_431_856_800_000, False), (1_431_853_200_000, True)):
            row = {"topic": "logs", "task_id": 1, "version": 1, "period_start": start, "why": "lost"}
            connection.execute(sa.insert(schema.recounts).values(**row, switched=switched))
    text = " ".join(html.unescape(ann.get(f"{PAGES}/task/hits").text).split())
    assert "1 of its periods, from" in text
    assert "is being counted again from the archive" in text


def test_a_form_with_too_many_fields_is_refused(ann: TestClient) -> None:
    answer = ann.post(f"{PAGES}/draft", data={f"f{n}": "" for n in range(3_000)})
    assert answer.status_code == 413


def test_a_topic_without_lines_says_so(ann: TestClient, lines: list[bytes]) -> None:
    lines.clear()
    page = opened(ann, "/new?topic=other")
    assert "No lines to begin with" in page.text
    pasted = page.send(lines=line(status="500").decode() + "\r\n")
    assert "1 of 1 lines are counted" in pasted.text


def test_drafts_are_not_tried_without_end(ann: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice.runtime.throttle import Rate
    from sluice_airflow.console import editor

    monkeypatch.setattr(editor, "RATE", Rate(2, clock=lambda: 0.0))
    codes = [ann.get(f"{PAGES}/new").status_code for _ in range(3)]
    assert codes == [200, 200, 429]


@pytest.mark.parametrize("rows", [None, 5])
@pytest.mark.parametrize("part", ["dimensions", "where"])
def test_rows_that_the_yaml_leaves_empty_are_begun_by_a_button(
    ann: TestClient, part: str, rows: int | None
) -> None:
    written = yaml.safe_dump(
        {"name": "hits", "topic": "logs", "period": "1m", "metrics": ["count"], part: rows}
    )
    page = opened(ann, "/new").send(do="yaml", yaml=written)
    wish = json.dumps({"to": part, "extract": {"field": "status"}, "name": "status", "value": "404"})
    for button in ({"use": wish}, {"do": f"add:{part}"}):
        again = page.send(written="yaml", yaml=written, **button)
        assert (again.status, len(again.task[part])) == (200, 1)
    assert page.send(written="yaml", yaml=written, do=f"remove:{part}/0").status == 200


def test_a_measure_is_made_beside_metrics_that_are_none(ann: TestClient) -> None:
    wish = json.dumps({"to": "measure", "extract": {"field": "bytes"}, "name": "bytes", "value": "1"})
    assert opened(ann, "/new").send(written="yaml", yaml="metrics: [[count]]", use=wish).status == 200


def test_a_new_statistic_needs_a_name_that_no_other_has(ann: TestClient, tasks: TaskStore) -> None:
    tasks.apply([spec(name="hits"), spec(name="sizes")], "bob")
    taken = "there is a statistic of this name already: choose another"
    page = opened(ann, "/new").send("review", name="hits")
    assert page.status == 422
    assert taken in re.split(r'id="wrong-name"', page.text)[1].split("</div>")[0]
    assert page.send("review", name="others").status == 200
    renamed = {**opened(ann, "/task/sizes/edit").task, "name": "hits"}
    page = opened(ann, "/task/sizes/edit").send("review", do="yaml", yaml=yaml.safe_dump(renamed))
    assert (page.status, taken in page.text) == (422, True)
    assert opened(ann, "/task/hits/edit").send("review", period="5m").status == 200


def test_a_button_is_for_what_the_yaml_says(ann: TestClient) -> None:
    """As the script sends it: the button's wish, and that the YAML was written."""
    page = opened(ann, "/new")
    fields = [(name, text) for name, text in page.fields if name != "yaml"]
    yaml_ = yaml.safe_dump({**page.task, "name": "typed"})
    data = Mapping_of([("do", "add:dimensions"), *fields, ("yaml", yaml_), ("do", "yaml")])
    made = Page(ann, ann.post(f"{PAGES}/draft", data=data))
    assert (made.value("name"), made.task["name"], len(made.task["dimensions"])) == ("typed", "typed", 1)


def test_a_yaml_that_is_no_task_is_marked(ann: TestClient) -> None:
    page = opened(ann, "/new")
    assert not re.search(r'id="yaml"[^>]*aria-invalid', page.text)
    assert re.search(
        r'id="yaml"[^>]*aria-invalid="true"', page.send("review", do="yaml", yaml="name: [").text
    )

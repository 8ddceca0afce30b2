"""The demo's phases: tasks, dashboard, nights, hosts and progress, without a stack."""

import sys
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.cli.demo.counting import grouping_reports, progress
from sluice.cli.demo.dashboard import CHARTS, make_dashboard
from sluice.cli.demo.entry import alone, layout_of, usable
from sluice.cli.demo.nights import Nights, compute
from sluice.cli.demo.problems import DemoError, NoLog
from sluice.cli.demo.steps import apply_tasks
from sluice.cli.main import main
from sluice.cli.output.phases import Phases
from sluice.collection import inventory
from sluice.quality.hops import Hops
from sluice.runtime.settings import ROOT, Settings, get_settings
from sluice.speed.progress import SpeedProgress
from sluice.stack.airflow.answers import AirflowError, DagRun
from sluice.stack.jobs import SPEED_LAYER
from sluice.stack.networking import network
from sluice.stack.progress import CountingState, progress_file
from sluice.storage import postgres
from sluice.storage.tables import schema
from sluice.storage.tables.dashboards import Dashboards
from sluice.storage.tables.days import Days, published_now
from sluice.tasks import parse_tasks
from sluice.tasks.store import TaskStore
from sluice_hosts import hosts
from sluice_hosts.commands.demo_hosts import COLLECTORS, FRONT_ENDS, MOVED, layout, running
from sluice_hosts.emulated import power
from sluice_hosts.trust import enrolment
from tests.cli.routed import ROUTED
from tests.tasks.database import sqlite

TODAY = date(2026, 11, 27)
OVER, FUTURE = [date(2015, 5, 17), date(2015, 5, 18), TODAY - timedelta(days=1)], date(2038, 1, 19)


class Airflow:
    """A double of Airflow's client that refuses a backfill of days to come, as Airflow does."""

    def __init__(self, book: Days) -> None:
        self.book = book
        self.asked: list[tuple[date, date]] = []

    def backfill(self, dag: str, first: date, last: date) -> int:
        assert dag == "nightly_batch"
        if last >= TODAY:
            raise AirflowError("POST backfills", 422, b"Backfill cannot be executed for future dates.")
        self.asked.append((first, last))
        return len(self.asked)

    def wait_backfill(self, number: int, timeout: float) -> list[DagRun]:
        first, last = self.asked[number - 1]
        wanted = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        for day in wanted:
            self.book.set_computed(day, cut={"0": 9}, run_id="r", tasks_seq=1, raw_lines=1, lines=1)
            with self.book.engine.begin() as connection:
                published_now(connection, self.book.topic, day, {"0": 9})
        now = datetime(2026, 11, 27, tzinfo=UTC)
        return [DagRun("nightly_batch", f"r_{day}", "success", "backfill", day, now, now) for day in wanted]

    def wait_downstream(self, dag: str, runs: list[DagRun], timeout: float) -> list[DagRun]:
        assert dag == "reconcile"
        return []


def nights(monkeypatch: pytest.MonkeyPatch, lines: dict[date, int]) -> tuple[Nights, Airflow, list[str]]:
    """What the demo does with a log of so many lines of each day."""
    database = sqlite()
    monkeypatch.setattr(postgres, "engine", lambda settings: database)
    with database.begin() as connection:
        for day, n in lines.items():
            row = {"topic": "logs", "day": day, "partition": 0, "lines": n, "last_offset": 5}
            connection.execute(sa.insert(schema.event_days).values(row))
    airflow, said = Airflow(Days(database, "logs")), list[str]()
    found = compute(SimpleNamespace(), airflow, TODAY, said.append)  # type: ignore[arg-type]
    return found, airflow, said


def test_days_that_are_not_over_are_left_out_and_the_others_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = {TODAY: 4, TODAY + timedelta(days=1): 1, FUTURE: 1}
    found, airflow, said = nights(monkeypatch, {**dict.fromkeys(OVER, 100), **later})
    assert airflow.asked == [(OVER[0], OVER[1]), (OVER[2], OVER[2])]
    assert found == Nights([], OVER, later)
    assert said[-1] == (
        "3 of 3 days computed, 3 reconciled and published; not over, so left out: "
        "2026-11-27: 4 lines, 2026-11-28: 1 line, 2038-01-19: 1 line"
    )


def test_a_log_without_days_to_come_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, said = nights(monkeypatch, dict.fromkeys(OVER, 100))
    assert found == Nights([], OVER, {})
    assert said[-1] == "3 of 3 days computed, 3 reconciled and published"


def test_a_log_of_days_to_come_alone_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    found, airflow, _ = nights(monkeypatch, {TODAY: 1_200, FUTURE: 1})
    assert (found.computed, airflow.asked) == ([], [])
    assert found.failures == [
        "no day of the log is over (2026-11-27: 1,200 lines, 2038-01-19: 1 line), and nightly_batch computes "
        "a day once it is over (UTC): name a log with lines of earlier days"
    ]
    assert nights(monkeypatch, {})[0].failures == [
        "no line of the log has an event time: see the table dead_letters"
    ]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"online": 2_128, "archived": 53_235}, "2,128 of 53,235 counted, 53,235 of 53,235 archived"),
        ({"online": 53_235, "archived": 9}, "53,235 of 53,235 counted, 9 of 53,235 archived"),
        (
            {"online": 53_232, "dead_lettered": 3, "doubled": 5, "archived": 53_239},
            "53,232 of 53,235 counted and 3 dead-lettered, 53,239 of 53,240 archived (5 came twice)",
        ),
        (
            {"online": 2_128, "archived": 53_237},
            "2,128 of 53,235 counted, 53,237 of 53,237 archived (2 came twice)",
        ),
    ],
)
def test_counted_and_archived_are_of_the_lines_that_were_written(counts: dict[str, int], said: str) -> None:
    numbers: dict[str, Any] = {**dict.fromkeys(Hops.COUNTS, 0), "lines_read": 53_235, **counts}
    assert progress(Hops("logs", **numbers)) == said


def test_the_log_is_the_one_named_else_one_is_generated(tmp_path: Path) -> None:
    assert usable(None) is None
    own = tmp_path / "access.log"
    own.write_bytes(b"line\n")
    assert usable(own) == own


def test_a_second_demo_is_refused(tmp_path: Path) -> None:
    settings: Any = SimpleNamespace(home=tmp_path / "var" / "demo")
    with alone(settings), pytest.raises(DemoError, match="another demo"), alone(settings):
        pass
    with alone(settings):
        pass


def test_a_log_that_cannot_be_used_is_refused_before_anything_is_deleted(tmp_path: Path) -> None:
    with pytest.raises(NoLog, match="no such file"):
        usable(tmp_path / "missing.log")
    empty = tmp_path / "empty.log"
    empty.touch()
    with pytest.raises(NoLog, match="empty"):
        usable(empty)


@pytest.mark.parametrize("number", ["0", "9", "abc", "-1", "3.5", ""])
def test_a_number_of_hosts_that_cannot_be_used_is_named_with_the_remedy(
    number: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sluice", "demo", "--hosts", number])
    monkeypatch.setenv("SLUICE_INSTANCE", "demo")
    monkeypatch.delenv(network.MARK, raising=False)  # the tests may run in an instance's network
    get_settings.cache_clear()
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = f"sluice: HOSTS={number}: give a number of hosts from 1 to 5, or leave it out\n"
    assert capsys.readouterr().err == said
    get_settings.cache_clear()


@pytest.mark.parametrize("number", range(1, 6))
def test_collectors_begin_on_two_hosts_and_one_goes_to_another(number: int) -> None:
    made = layout(str(number))
    assert made is not None
    places = [*made.hosts, "local"]
    assert list(made.front_ends) == list(FRONT_ENDS)
    assert list(made.collectors) == list(COLLECTORS)
    assert {*made.front_ends.values(), *made.collectors.values(), made.goes_to} <= {*places}
    assert len({*made.collectors.values()}) == 2
    assert made.goes_to != made.collectors[MOVED]
    if number > 2:
        assert not {*made.front_ends.values()} & {*made.collectors.values()}
        assert "local" not in str(made)
    assert layout_of(None) is None


def test_the_demo_shows_what_the_speed_layer_says_of_its_grouping(tmp_path: Path) -> None:
    settings: Any = SimpleNamespace(home=tmp_path)
    assert grouping_reports(settings) == []
    layer = SpeedProgress(progress_file(settings, SPEED_LAYER))
    layer.topic("logs", CountingState.STARTING)
    assert grouping_reports(settings) == []
    layer.batch("logs", {}, grouping={"4v1": ROUTED})
    assert [report.strategy for report in grouping_reports(settings)] == ["planned"]


def test_one_of_the_examples_is_routed_by_a_plan_and_the_others_are_left_to_auto() -> None:
    tasks = parse_tasks((ROOT / "include" / "examples" / "tasks.yaml").read_text())
    named = {task.name: task.grouping.strategy for task in tasks if task.grouping is not None}
    assert named == {"pages_per_day": "planned"}


@pytest.mark.slow
def test_the_demo_counts_the_examples_beside_what_a_new_platform_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = sqlite()
    monkeypatch.setattr(postgres, "engine", lambda settings: database)
    store = TaskStore(database)
    files = [ROOT / "include" / name for name in ("tasks.yaml", "examples/tasks.yaml")]
    store.apply(parse_tasks(files[0].read_text()), "sluice")
    settings: Any = SimpleNamespace(root=ROOT)
    said: list[str] = []
    apply_tasks(settings, said.append)
    apply_tasks(settings, said.append)
    names = {task.name for file in files for task in parse_tasks(file.read_text())}
    assert {(task.name, task.version, task.state) for task in store.list("logs")} == {
        (name, 1, "active") for name in names
    }
    assert all(not task.spec.sets for task in store.active("logs"))
    assert said[0] == said[1]
    assert said[0].startswith("14 tasks, ")


def test_the_demo_makes_one_dashboard_for_its_user_and_shares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    database = sqlite()
    monkeypatch.setattr(postgres, "engine", lambda settings: database)
    settings: Any = SimpleNamespace(airflow=SimpleNamespace(user="admin"))
    make_dashboard(settings)
    make_dashboard(settings)
    (made,) = Dashboards(database).of("admin")
    assert (made.name, made.shared, made.charts) == ("Demo", True, CHARTS)


@pytest.mark.slow
@pytest.mark.parametrize("end", [KeyboardInterrupt, DemoError, None])
def test_hosts_are_enrolled_and_end_however_the_demo_ends(
    tmp_path: Path, end: type[BaseException] | None
) -> None:
    settings = Settings(instance="demo", home=tmp_path / "demo", port_base=29_000)
    wanted = layout("3")
    assert wanted is not None
    said = StringIO()
    with nullcontext() if end is None else pytest.raises(end), running(settings, wanted, Phases(said)):
        known = hosts.load(settings)
        assert {enrolment.state(settings, known[name]) for name in wanted.hosts} == {"yes"}
        found = inventory.load(settings)
        assert {each.host: each.runs_on for each in found.front_ends} == wanted.front_ends
        assert {each.name: found.host_of(each) for each in found.collectors} == wanted.collectors
        assert all(Path(each.files[0]).parent.is_dir() for each in found.front_ends)
        homes = [settings.home / "emulated" / name for name in wanted.hosts]
        assert all(power.processes(home) for home in homes)
        if end is not None:
            raise end
    assert not any(power.processes(home) for home in homes)
    assert "host1: web1, web2; host2: collector1; host3: collector2" in said.getvalue()

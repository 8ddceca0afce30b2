"""Another user of the host attacks the instance from outside its network."""

from __future__ import annotations

import re
import time

import pytest

from sluice.runtime.settings import ROOT, Settings, read_secret
from sluice.stack.users import Users
from tests.security.attacker import wire
from tests.security.attacker.airflow import FRAME, forge, forged
from tests.security.attacker.hadoop import rpc
from tests.security.attacker.postgres import scram
from tests.security.attacker.report import HARM, Finding, Outcome, Report
from tests.security.attacker.target import Target
from tests.security.attacker.thrift import hbase_thrift, metastore, plain
from tests.security.attacker.wire import attempt
from tests.security.attacker.zookeeper import zookeeper
from tests.security.routes import all_routes
from tests.security.strangers import attack, target

pytestmark = pytest.mark.stack

MARK = "<!-- strangers: checked by tests/security/test_stranger.py -->"
#: A refusal by the kernel is no door; one by a daemon is.
KERNEL = {"files", "processes"}
ROUTE = re.compile(r"[A-Z]+ /")
CODE = re.compile(r"`([^`]+)`")


@pytest.fixture(scope="module")
def findings(stack: Settings) -> list[Finding]:
    if not stack.private:
        pytest.skip("the instance runs in the host's network, where its daemons answer everybody")
    return attack(stack, all_routes())


def test_a_stranger_reads_changes_and_executes_nothing(findings: list[Finding]) -> None:
    assert [each for each in findings if each.outcome in HARM] == []


def test_a_stranger_reaches_what_the_page_lists_and_nothing_else(findings: list[Finding]) -> None:
    silent = {Outcome.UNREACHABLE}
    reached = {
        each.door
        for each in findings
        if each.outcome not in (silent | {Outcome.REFUSED} if each.door in KERNEL else silent)
    }
    assert reached == set(listed())


def test_airflow_shows_a_stranger_the_pages_that_the_page_lists(findings: list[Finding]) -> None:
    """A page that is the same as `/` is not listed: it is an empty frame."""
    shown = {
        each.attempt
        for each in findings
        if each.door == "airflow"
        and ROUTE.match(each.attempt)
        and each.outcome is Outcome.ANSWERED
        and (FRAME not in each.detail or each.attempt == "GET /")
    }
    pages = [page for page in CODE.findall(listed()["airflow"]) if "/" in page]
    assert shown == {page if " " in page else f"GET {page}" for page in pages}


def test_the_same_attacks_succeed_from_inside_and_with_the_right_passwords(
    stack: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an attack that fails from outside does not fail by a mistake of its own. Nothing is changed here."""
    monkeypatch.setattr(wire, "TIMEOUT_SECONDS", 60.0)  # a login opens a session of Spark first
    aim, report = Target.of(target(stack, [])), Report()
    for attack_inside in (metastore, hbase_thrift, rpc, zookeeper):
        attack_inside(aim, report)
    user, sql, jwt = stack.hive.user, stack.hive.password, read_secret(stack.home, "airflow_jwt")
    attempt(report, "sql", "log in", stack.port("sql"), plain(user, sql))
    attempt(report, "postgres", "log in", stack.port("postgres"), scram(user, stack.postgres.password))
    admin = Users(stack).all()[stack.airflow.user]
    log_in = {"sid": "forged", "auth_time": int(time.time()), "gen": admin.generation}
    for how, token in forged(user, [jwt], log_in):
        forge(report, stack.port("airflow"), token, how, "/api/v2/dags")
    harmed = {row["door"] for row in report.rows() if row["outcome"] in HARM}
    assert harmed == {
        *("metastore", "hbase_thrift", "namenode", "hbase_master", "zookeeper"),
        *("sql", "postgres", "airflow"),
    }
    unsigned = [row for row in report.rows() if "unsigned" in row["attempt"]]
    assert unsigned
    assert {row["outcome"] for row in unsigned} == {Outcome.REFUSED}


def listed() -> dict[str, str]:
    """The rows of the table in docs/security.md: what is reached, and what it gives."""
    text = (ROOT / "docs" / "security.md").read_text()
    rows = {}
    for line in text[text.index(MARK) :].splitlines()[3:]:
        if not line.startswith("|"):
            break
        door, gives = [cell.strip() for cell in line.strip("|").split("|")][:2]
        rows[door.strip("`")] = gives
    return rows

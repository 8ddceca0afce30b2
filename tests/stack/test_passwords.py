"""How the SQL endpoint checks passwords: the same limits as at Airflow's log-in."""

from __future__ import annotations

import json
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from sluice.runtime.jvm import java
from sluice.runtime.passwords import PasswordHash
from sluice.runtime.settings import Settings
from sluice.stack import secrets, users
from sluice.stack.admitted import Admitted
from sluice.stack.environment import spark_home
from sluice.stack.jars import ENDPOINT, require
from sluice.stack.users import FILE, Users

#: A program that logs in as its input says, a line a log-in: source, name, password. Lines that begin with
#: `&` go at the same time as the next one. It prints what is said of each, in the order of the input.
DRIVER = """
import java.util.*;
import java.util.concurrent.*;
public class Driver {
  public static void main(String[] arguments) throws Exception {
    ExecutorService pool = Executors.newCachedThreadPool();
    List<Future<String>> together = new ArrayList<>();
    for (String line : new String(System.in.readAllBytes()).split("\\n")) {
      String[] given = line.replaceFirst("^&", "").split(" ", 3);
      together.add(pool.submit(() -> said(given)));
      if (!line.startsWith("&")) {
        for (Future<String> each : together) System.out.println(each.get());
        together.clear();
      }
    }
    pool.shutdown();
  }
  static String said(String[] given) {
    org.apache.hive.service.cli.session.SessionManager.setIpAddress(given[0]);
    try {
      new sluice.sql.Passwords().Authenticate(given[1], given[2]);
      return "right";
    } catch (javax.security.sasl.AuthenticationException refused) {
      return refused.getMessage();
    }
  }
}
"""
WRONG, WAIT = "the user or the password is wrong", "too many wrong passwords from here: wait"
pytestmark = pytest.mark.slow


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admitted:
    """Users whose hashes take no time, so that no budget fills again while a test runs."""
    settings = Settings(instance="test", home=tmp_path)
    secrets.make(settings)
    monkeypatch.setattr(users.PasswordHash, "of", partial(PasswordHash.of, rounds=1))
    return Admitted(settings)


def said(home: Path, attempts: list[str]) -> list[str]:
    """What is answered to each attempt, in one process."""
    (home / "Driver.java").write_text(DRIVER)
    path = f"{require('spark') / ENDPOINT}:{spark_home() / 'jars' / '*'}"
    argv = [java(), "-cp", path, f"-Dsluice.users={home / 'secrets' / FILE}", str(home / "Driver.java")]
    done = subprocess.run(
        argv, input="\n".join(attempts), capture_output=True, text=True, timeout=120, check=True
    )
    return [line for line in done.stdout.splitlines() if line.startswith(("right", "the user", "too many"))]


def test_a_stranger_slows_himself_and_keeps_nobody_out(quick: Users, tmp_path: Path) -> None:
    password = quick.add("ann", "viewer")
    service = (tmp_path / "secrets" / "sql").read_text()
    guesses = ["127.1.1.1 ann x"] * 6
    rest = [f"127.1.1.1 ann {password}", f"127.1.1.2 ann {password}", f"127.1.1.1 sluice {service}"]
    answers = said(tmp_path, [*guesses, *rest])
    assert answers[:5] == [WRONG] * 5
    assert all(answer.startswith(WAIT) for answer in answers[5:7])
    assert answers[7:] == ["right", "right"]


def test_many_at_once_and_many_names_are_limited(quick: Users, tmp_path: Path) -> None:
    password = quick.add("ann", "viewer")
    at_once = ["&127.1.1.1 ann x"] * 13 + ["127.1.1.1 ann x"]
    names = [f"127.1.1.2 {quick_name(quick, number)} x" for number in range(25)]
    right = [f"&127.1.1.3 ann {password}"] * 5 + [f"127.1.1.3 ann {password}"]
    answers = said(tmp_path, [*at_once, *names, *right])
    first, second, third = answers[:14], answers[14:39], answers[39:]
    assert 1 <= first.count(WRONG) <= 5
    assert second[:20] == [WRONG] * 20
    assert all(answer.startswith(WAIT) for answer in second[21:])
    assert third == ["right"] * 6


def quick_name(users: Users, number: int) -> str:
    """A new user: for a name that nobody has, a slow hash is computed."""
    users.add(name := f"user{number}", "viewer")
    return name


def test_many_sources_slow_a_name_down_but_not_where_it_logged_in_before(
    quick: Users, tmp_path: Path
) -> None:
    password = quick.add("ann", "viewer")
    home, away = f"127.1.1.1 ann {password}", f"127.1.1.2 ann {password}"
    answers = said(tmp_path, [home, *(f"127.2.1.{number} ann x" for number in range(25)), home, away])
    assert answers[0] == answers[-2] == "right"
    assert answers[-1].startswith(WAIT)


def test_the_file_of_users_is_as_the_endpoint_reads_it(quick: Users, tmp_path: Path) -> None:
    quick.add("ann", "viewer")
    found = json.loads((tmp_path / "secrets" / FILE).read_text())
    assert set(found["ann"]) == {"role", "generation", "salt", "rounds", "hash"}


def test_somebody_of_a_provider_has_a_password_for_hours_and_else_none(
    quick: Admitted, tmp_path: Path
) -> None:
    user, _ = quick.admit("ann", "viewer", "oidc", "https://id.example.org 1")
    without = said(tmp_path, ["127.1.1.1 ann x", "127.1.1.1 ann "])
    later, before = int(time.time()) + 3600, int(time.time()) - 1
    password = quick.make_sql_password("ann", user.generation, later)
    right = said(tmp_path, [f"127.1.1.1 ann {password}", f"127.1.1.1 ann {password}x"])
    over = quick.make_sql_password("ann", user.generation, before)
    late = said(tmp_path, [f"127.1.1.1 ann {over}", f"127.1.1.1 ann {password}"])
    quick.make_sql_password("ann", user.generation, later)
    quick.end_sql_password("ann")
    ended = said(tmp_path, [f"127.1.1.1 ann {password}"])
    assert (without, right, late, ended) == ([WRONG] * 2, ["right", WRONG], [WRONG] * 2, [WRONG])


def test_what_the_password_opened_ends_with_it(quick: Admitted, tmp_path: Path) -> None:
    """A connection goes by the generation, which is empty for a password that has ended."""
    user, _ = quick.admit("ann", "viewer", "ldap", "uid=ann")
    asked = "sluice.sql.Passwords.generationOf"
    shown = []
    for until in (int(time.time()) + 3600, int(time.time()) - 1):
        quick.make_sql_password("ann", user.generation, until)
        shown.append(printed(tmp_path, asked, "ann"))
    quick.end_sql_password("ann")
    assert [*shown, printed(tmp_path, asked, "ann")] == [user.generation, "", ""]


def printed(home: Path, method: str, argument: str) -> str:
    """What a method of the endpoint returns; it is seen by its own package alone."""
    name, _, call = method.rpartition(".")
    (home / "Print.java").write_text(
        "public class Print { public static void main(String[] given) throws Exception {"
        f'var method = Class.forName("{name}").getDeclaredMethod("{call}", String.class);'
        "method.setAccessible(true); System.out.println(method.invoke(null, given[0])); } }"
    )
    path = f"{require('spark') / ENDPOINT}:{spark_home() / 'jars' / '*'}"
    argv = [
        java(),
        "-cp",
        path,
        f"-Dsluice.users={home / 'secrets' / FILE}",
        str(home / "Print.java"),
        argument,
    ]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout.strip()

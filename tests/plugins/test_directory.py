"""Log-ins by a directory (LDAP): a real one and faults of one, who gets in, and who does not."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from sluice.runtime.login_settings import Login
from sluice.stack.users import Users
from tests.plugins.ldap_server import (
    BASE,
    ROOT_DN,
    ROOT_PASSWORD,
    Directory,
    certificate,
    directory,
)
from tests.plugins.log_in_site import ME, Site, log_in_site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_passwords")]

PASSWORD = "correct, horse (*) battery"
STAFF, OWNERS = f"cn=staff,ou=groups,{BASE}", f"cn=Owners,ou=groups,{BASE}"


def person(uid: str) -> tuple[list[str], dict[str, object]]:
    return ["inetOrgPerson"], {"uid": uid, "cn": uid, "sn": uid, "userPassword": PASSWORD}


def group(*members: str) -> tuple[list[str], dict[str, object]]:
    return ["groupOfNames"], {"member": [f"{each},ou=people,{BASE}" for each in members]}


ENTRIES: dict[str, tuple[list[str], dict[str, object]]] = {
    "ou=people": (["organizationalUnit"], {}),
    "ou=groups": (["organizationalUnit"], {}),
    "uid=ann,ou=people": person("ann"),
    "uid=ben,ou=people": person("ben"),
    "uid=cleo,ou=people": person("cleo"),
    "uid=admin,ou=people": person("admin"),
    "uid=twin,ou=people": person("twin"),
    "cn=other twin,ou=people": person("twin"),
    "cn=d\\, (an*),ou=people": person("dan"),  # characters that mean something in names and filters
    "cn=staff,ou=groups": group("uid=ann", "uid=ben", "uid=twin", "cn=other twin", "cn=d\\, (an*)"),
    "cn=Owners,ou=groups": group("uid=ben", "uid=admin"),
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with directory(tmp_path_factory.mktemp("directory"), ENTRIES) as made:
        yield made


@pytest.fixture(scope="module")
def serving() -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as patch, log_in_site(patch) as made:
        yield made


def ldap(url: str, **other: Any) -> dict[str, Any]:
    return {
        "url": url,
        "bind_dn": ROOT_DN,
        "bind_password_file": "ldap",
        "user_base": f"ou=people,{BASE}",
        "roles": {"viewer": [STAFF], "op": [OWNERS.lower()]},
        **other,
    }


@pytest.fixture
def site(serving: Site, tmp_path: Path) -> Site:
    serving.at(tmp_path)
    secret = serving.settings.home / "secrets" / "ldap"
    secret.write_text(ROOT_PASSWORD)
    secret.chmod(0o600)
    return serving


@pytest.fixture
def known(site: Site, people: Directory) -> Site:
    """The site, which asks the directory over TLS."""
    site.set(ldap=ldap(people.tls_url, ca=str(people.ca)))
    return site


def ask(site: Site, name: str, password: str = PASSWORD) -> httpx.Response:
    body = {"username": name, "password": password}
    return httpx.post(f"{site.url}/auth/token", json=body, trust_env=False, timeout=30)


def role(site: Site, name: str) -> str:
    """The role with which the person gets in."""
    answer = ask(site, name)
    assert answer.status_code == 201, answer.text
    headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    assert httpx.get(f"{site.url}{ME}", headers=headers, trust_env=False).json()["username"] == name
    return Users(site.settings).all()[name].role


@pytest.mark.parametrize("way", ["ldaps", "starttls", "plain on this machine"])
def test_people_log_in_with_the_role_of_their_groups(site: Site, people: Directory, way: str) -> None:
    given = {
        "ldaps": ldap(people.tls_url, ca=str(people.ca)),
        "starttls": ldap(people.url, ca=str(people.ca), starttls=True),
        "plain on this machine": ldap(people.url),
    }
    site.set(ldap=given[way])
    assert [role(site, name) for name in ("ann", "ben", "dan")] == ["viewer", "op", "viewer"]
    assert ask(site, "ann", PASSWORD.upper()).status_code == 401
    subject = Users(site.settings).all()["dan"].subject
    assert (
        subject.replace("\\2C", "\\,") == f"cn=d\\, (an*),ou=people,{BASE}"
    )  # a directory's way to write it


@pytest.mark.parametrize("way", ["ldaps", "starttls"])
def test_people_log_in_from_the_instances_own_network(site: Site, people: Directory, way: str) -> None:
    url, more = (people.tls_url, {}) if way == "ldaps" else (people.url, {"starttls": True})
    site.set(ldap=ldap(url, ca=str(people.ca), **more))
    with site.relayed():
        assert role(site, "ben") == "op"
        assert ask(site, "ben", "wrong").status_code == 401
    assert ask(site, "ben").status_code == 503  # nothing else leads there


def test_groups_may_be_looked_for(site: Site, people: Directory) -> None:
    roles = {"user": ["STAFF"], "admin": ["owners"]}
    site.set(ldap=ldap(people.url, group_base=f"ou=groups,{BASE}", roles=roles))
    assert [role(site, name) for name in ("ann", "ben", "dan")] == ["user", "admin", "user"]


def test_who_has_no_group_is_told_so(known: Site) -> None:
    answer = ask(known, "cleo")
    assert (answer.status_code, "in no group that has a role" in answer.text) == (403, True)
    assert "cleo" not in Users(known.settings).all()
    assert ask(known, "cleo", "wrong").status_code == 401


def test_a_local_user_is_asked_for_his_own_password_alone(known: Site) -> None:
    own = Users(known.settings).add("ann", "viewer")
    before = Users(known.settings).all()
    for name in ("ann", "admin", "sluice"):
        assert ask(known, name).status_code == 401
    assert ask(known, "ann", own).status_code == 201
    assert Users(known.settings).all() == before


@pytest.mark.parametrize("password", ["", "\0", "\0" + PASSWORD, PASSWORD + "\0"])
def test_no_password_opens_nothing(known: Site, people: Directory, password: str) -> None:
    dn = f"uid=ann,ou=people,{BASE}".encode()
    bind = bytes([2, 1, 3, 4, len(dn)]) + dn + b"\x80\x00"
    message = bytes([2, 1, 1, 0x60, len(bind)]) + bind
    with socket.create_connection(("127.0.0.1", people.port)) as raw:
        raw.sendall(bytes([0x30, len(message)]) + message)
        let_in = b"\x0a\x01\x00" in raw.recv(99)
    assert let_in is not people.needs_passwords  # if it is let in there, this shows the most
    assert ask(known, "ann", password).status_code == 401


@pytest.mark.parametrize(
    "name",
    [
        *("*", "a*", "*)(uid=*", "ann)(uid=*", "ann)(|(uid=*", "(ann)", "\\61nn", "ann\\00", "ann\0", " ann"),
        *("ann ", "ANN", "a" * 41, "", "uid=ann", "ann,ou=people", "ánn", "twin"),
    ],
)
def test_only_a_whole_name_of_one_person_is_one(known: Site, name: str) -> None:
    assert ask(known, name).status_code == 401
    assert {user.origin for user in Users(known.settings).all().values()} == {""}


def test_names_are_escaped_wherever_they_go(site: Site, people: Directory, monkeypatch: Any) -> None:
    """The form of names keeps what is special out; this shows what would be if it did not."""
    import re

    from sluice_airflow.provider import directory as asked

    monkeypatch.setattr(asked, "NAME", re.compile(".*", re.DOTALL))
    given = ldap(people.url, group_base=f"ou=groups,{BASE}", group_filter="(&(cn={user})(member={dn}))")
    parsed = Login.model_validate({"ldap": given}).ldap
    assert parsed is not None
    for name in ("*", "ann)(uid=*", "a*", "*)(cn=*))(|(uid=*", "ann\0", "ann,", "ann)", "#", "\\"):
        assert asked.log_in(site.settings, parsed, name, PASSWORD) is None


def test_guesses_count_as_those_of_local_users(known: Site) -> None:
    said = [ask(known, "ann", "wrong").status_code for _ in range(7)]
    assert said == [401] * 5 + [429] * 2
    assert ask(known, "ann").status_code == 429
    assert role(known, "ben") == "op"


def test_another_role_there_is_taken_up_and_none_ends_all(known: Site) -> None:
    token = ask(known, "ann").json()["access_token"]

    def status() -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.get(f"{known.url}{ME}", headers=headers, trust_env=False).status_code

    given = known.settings.login.ldap
    assert given is not None
    assert (status(), ask(known, "ann").status_code, status()) == (200, 201, 200)
    known.set(ldap={**given.model_dump(), "roles": {"op": [OWNERS]}})
    assert (ask(known, "ann").status_code, status()) == (403, 401)
    text = (known.settings.home / "secrets" / "history.jsonl").read_text()
    noted = [json.loads(line) for line in text.splitlines()]
    assert [(each["name"], each["action"]) for each in noted] == [
        ("ann", "added by ldap"),
        ("ann", "removed"),
    ]


@pytest.mark.parametrize("way", ["ldaps", "starttls"])
def test_a_certificate_is_checked(site: Site, people: Directory, tmp_path: Path, way: str) -> None:
    starttls = way == "starttls"
    port = people.port if starttls else people.tls_port
    (tmp_path / "other").mkdir()
    certificate(tmp_path / "other", "127.0.0.1")
    scheme = "ldap" if starttls else "ldaps"
    for host, ca in (
        ("127.0.0.1", ""),  # whom this machine trusts
        ("127.0.0.1", str(tmp_path / "other" / "certificate.pem")),
        ("localhost", str(people.ca)),  # it is made out to the address
    ):
        site.set(ldap=ldap(f"{scheme}://{host}:{port}", ca=ca, starttls=starttls))
        answer = ask(site, "ann")
        assert (answer.status_code, "cannot be asked now" in answer.text) == (503, True)


@pytest.mark.parametrize(
    "other", [{"user_base": "dc=nowhere"}, {"user_filter": "(uid={user}"}, {"bind_dn": f"cn=x,{BASE}"}]
)
def test_settings_that_the_directory_refuses_keep_no_local_user_out(
    known: Site, other: dict[str, str]
) -> None:
    given = known.settings.login.ldap
    assert given is not None
    known.set(ldap={**given.model_dump(), **other})
    assert ask(known, "ann").status_code == 503
    assert ask(known, "joe", Users(known.settings).add("joe", "viewer")).status_code == 201


# Faults of a directory, by doubles of one


@contextmanager
def faulty(answers: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a server that does this with each connection."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            answers(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"ldap://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def says_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def says_it_slowly(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"\x30\x84\x7f\xff\xff\xff")  # a message of 2 GiB begins
    while True:
        time.sleep(0.2)
        connection.sendall(b"\0")


def says_too_much(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"\x30\x84\x7f\xff\xff\xff")
    for _ in range(100):
        connection.sendall(bytes(1 << 20))


def says_nonsense(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("fault", [says_nothing, says_it_slowly, says_too_much, says_nonsense])
def test_a_directory_that_does_not_answer_well_costs_a_bounded_time_and_size(
    site: Site, monkeypatch: pytest.MonkeyPatch, fault: Callable[[socket.socket], object]
) -> None:
    from sluice_airflow.provider import directory as asked

    monkeypatch.setattr(asked, "SECONDS", 1.0)
    monkeypatch.setattr(asked, "WAIT_SECONDS", 1)
    with faulty(fault) as url:
        site.set(ldap=ldap(url))
        begin = time.monotonic()
        answer = ask(site, "ann")
        assert (answer.status_code, "cannot be asked now" in answer.text) == (503, True)
        assert time.monotonic() - begin < 5
        assert ask(site, "joe", Users(site.settings).add("joe", "viewer")).status_code == 201


def test_a_directory_that_is_not_there_keeps_no_local_user_out(site: Site) -> None:
    site.set(ldap=ldap("ldap://127.0.0.1:1"))
    assert ask(site, "ann").status_code == 503
    assert ask(site, "joe", Users(site.settings).add("joe", "viewer")).status_code == 201


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"url": "ldap://ldap.example.org"}, "clear text"),
        ({"url": "http://ldap.example.org"}, "ldaps://"),
        ({"url": "ldaps://ldap.example.org/dc=x"}, "ldaps://"),
        ({"user_filter": "(uid=ann)"}, "user_filter"),
        ({"group_base": "dc=x", "group_filter": "(cn=*)"}, "group_filter"),
        ({"bind_password_file": ""}, "bind_dn"),
        ({"bind_dn": ""}, "bind_dn"),
        ({"roles": {}}, "roles"),
        ({"password": "x"}, "password"),
    ],
)
def test_settings_that_are_not_safe_are_refused(other: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Login.model_validate({"ldap": {**ldap("ldaps://ldap.example.org"), **other}})

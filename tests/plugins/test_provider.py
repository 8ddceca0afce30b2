"""Log-ins by an identity provider: a real one and its faults, who gets in, and who does not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from pydantic import ValidationError

from sluice.runtime.login_settings import Login, SecretUnusable, secret_in
from sluice.runtime.settings import Settings
from sluice.runtime.throttle import Rate
from sluice.stack.users import Users
from tests.plugins.log_in_site import Browser, Site, fields, log_in_site
from tests.plugins.oidc_provider import OidcProvider, oidc_provider

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_passwords")]

PEOPLE = (
    ("1", {"preferred_username": "ann", "groups": ["staff"]}),
    ("2", {"preferred_username": "ben", "groups": ["guests", "Owners", 7]}),
    ("3", {"preferred_username": "cleo", "groups": ["guests"]}),
    ("4", {"preferred_username": "admin", "groups": ["owners"]}),
    ("5", {"preferred_username": "sluice", "groups": ["owners"]}),
    ("6", {"preferred_username": "Eve <b>'; --", "groups": ["owners"]}),
    ("7", {"groups": ["owners"]}),
    ("8", {"preferred_username": "ann", "groups": ["owners"]}),  # not she of the first row
    ("9", {"preferred_username": "dan@example.org", "groups": "staff"}),
    ("10", {"preferred_username": "dan@elsewhere.org", "groups": "staff"}),
)
ROLES = {"viewer": ["staff"], "admin": ["owners"]}
SECRET = "a secret: of the client / 7%"


@pytest.fixture(scope="module")
def running() -> Iterator[OidcProvider]:
    with oidc_provider(*PEOPLE) as made:
        yield made


@pytest.fixture
def provider(running: OidcProvider) -> OidcProvider:
    running.replaced.clear()
    running.redirected.clear()
    running.forms.clear()
    running.asked.clear()
    return running


@pytest.fixture
def oidc(provider: OidcProvider) -> dict[str, Any]:
    return settings_of(provider)


def settings_of(provider: OidcProvider) -> dict[str, Any]:
    return {
        "issuer": provider.url,
        "client_id": "sluice",
        "client_secret_file": "oidc",
        "label": "Example <Corp>",
        "roles": ROLES,
    }


@pytest.fixture(scope="module")
def serving(running: OidcProvider) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as patch, log_in_site(patch, oidc=settings_of(running)) as made:
        yield made


@pytest.fixture
def site(serving: Site, tmp_path: Path, oidc: dict[str, Any]) -> Site:
    serving.at(tmp_path, oidc=oidc)
    keep_secret(serving, SECRET)
    return serving


def keep_secret(site: Site, secret: str, mode: int = 0o600) -> None:
    file = site.settings.home / "secrets" / "oidc"
    file.write_text(f"{secret}\n")
    file.chmod(mode)


@pytest.fixture
def browser(site: Site) -> Browser:
    return Browser(site)


def refused(answer: httpx.Response, said: str, status: int = 403) -> None:
    assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert not any("_token" in each for each in answer.headers.get_list("set-cookie"))


def test_a_person_logs_in_and_gets_to_where_she_wanted_to_go(
    browser: Browser, provider: OidcProvider, site: Site
) -> None:
    answer = browser.log_in("1", "/dags?x=1&y=<2>")
    assert answer.status_code == 200
    assert f'content="0; url={site.url}/dags?x=1&amp;y=&lt;2&gt;"' in answer.text
    assert browser.me() == "ann"
    kept = {each.partition("=")[0]: each for each in answer.headers.get_list("set-cookie")}
    assert "HttpOnly" in kept["_token"]
    assert "SameSite=Strict" in kept["_token"]
    assert "Max-Age=0" in kept["_log_in"]
    assert Users(site.settings).all()["ann"].role == "viewer"
    (form,) = provider.forms
    assert form["redirect_uri"] == f"{site.url}/auth/provider/return"


def test_a_person_logs_in_from_the_instances_own_network(browser: Browser, site: Site) -> None:
    with site.relayed():
        assert browser.log_in("1").status_code == 200
        assert browser.me() == "ann"
        there = browser.begin()
    refused(browser.come_back(browser.sign_in(there, "1")), "cannot be used now", 502)


def test_the_code_is_bound_to_whoever_began(browser: Browser, provider: OidcProvider) -> None:
    there = browser.begin()
    asked = fields(there)
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    browser.come_back(browser.sign_in(there, "1"))
    digest = hashlib.sha256(provider.forms[0]["code_verifier"].encode()).digest()
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")


def test_the_client_shows_its_secret(browser: Browser, site: Site, oidc: dict[str, Any]) -> None:
    keep_secret(site, SECRET, 0o644)
    refused(browser.log_in("1"), "cannot be used now", 502)
    with pytest.raises(SecretUnusable, match="chmod 600"):
        secret_in(site.settings.home, "oidc")
    made = httpx.post(
        f"{oidc['issuer']}/oauth2/clients",
        json={"redirect_uris": [f"{site.url}/auth/provider/return"]},
        trust_env=False,
    ).json()
    keep_secret(site, made["client_secret"])
    site.set(oidc={**oidc, "client_id": made["client_id"]})
    assert browser.log_in("1").status_code == 200
    keep_secret(site, SECRET)
    refused(Browser(site).log_in("1"), "invalid_client")


def test_the_highest_role_of_the_groups_counts(browser: Browser, site: Site) -> None:
    assert browser.log_in("2").status_code == 200
    assert Users(site.settings).all()["ben"].role == "admin"
    assert browser.http.get("/ui/auth/me").json()["username"] == "ben"


@pytest.mark.parametrize(
    ("sub", "said"),
    [
        ("3", "is in no group that has a role here"),
        ("4", "is somebody else&#39;s here"),
        ("5", "is somebody else&#39;s here"),
        ("6", "cannot be used here"),
        ("7", "has no &#39;preferred_username&#39;"),
        ("9", "cannot be used here"),
    ],
)
def test_who_has_no_role_or_no_name_of_their_own_is_refused(
    browser: Browser, site: Site, sub: str, said: str
) -> None:
    before = Users(site.settings).all()
    refused(browser.log_in(sub), said)
    assert browser.me() == ""
    assert Users(site.settings).all() == before


def test_a_local_user_s_name_is_not_taken_over_and_no_name_twice(browser: Browser, site: Site) -> None:
    users = Users(site.settings)
    users.add("ann", "viewer")
    before = users.all()
    refused(browser.log_in("1"), "is somebody else&#39;s here")
    assert users.all() == before
    users.remove("ann")
    assert browser.log_in("1").status_code == 200
    refused(Browser(site).log_in("8"), "sluice users remove ann")
    assert users.all()["ann"].role == "viewer"


def test_names_of_one_domain(browser: Browser, site: Site, oidc: dict[str, Any]) -> None:
    site.set(oidc={**oidc, "domain": "example.org"})
    assert browser.log_in("9").status_code == 200
    assert browser.me() == "dan"
    for sub in ("10", "1"):
        refused(Browser(site).log_in(sub), "only names of example.org".capitalize())


def test_another_role_there_ends_the_log_in_here_with_the_next_one(browser: Browser, site: Site) -> None:
    oidc = site.settings.login.oidc
    assert oidc is not None
    assert browser.log_in("1").status_code == 200
    again = Browser(site)
    assert again.log_in("1").status_code == 200
    assert [browser.me(), again.me()] == ["ann", "ann"]  # the same role again ends nothing
    site.set(oidc={**oidc.model_dump(), "roles": {"user": ["staff"]}})
    assert browser.me() == "ann"
    third = Browser(site)
    assert third.log_in("1").status_code == 200
    assert [browser.me(), third.me()] == ["", "ann"]
    site.set(oidc={**oidc.model_dump(), "roles": {"user": ["others"]}})
    refused(Browser(site).log_in("1"), "in no group")
    assert third.me() == ""
    assert "ann" not in Users(site.settings).all()


def test_an_admin_ends_a_person_s_log_ins_and_so_does_the_end_of_the_setting(
    browser: Browser, site: Site
) -> None:
    assert browser.log_in("1").status_code == 200
    Users(site.settings).remove("ann")
    assert browser.me() == ""
    assert browser.log_in("1").status_code == 200
    site.set()
    assert browser.me() == ""
    assert browser.get("/auth/provider").status_code == 404


def test_it_is_in_the_history(browser: Browser, site: Site) -> None:
    browser.log_in("1")
    noted = [
        json.loads(line) for line in (site.settings.home / "secrets/history.jsonl").read_text().splitlines()
    ]
    assert [(each["who"], each["name"], each["action"], each["after"]) for each in noted] == [
        ("ann", "ann", "added by oidc", "viewer")
    ]
    assert noted[0]["origin"] == "uid:127.0.0.1"


def jwt_of(browser: Browser) -> dict[str, Any]:
    """The claims of a token that is made from the browser's login."""
    made = browser.http.post(
        "/ui/auth/token", json={"token_type": "cli"}, headers={"Sec-Fetch-Site": "same-origin"}
    )
    return claims_of(made.json()["access_token"])


def sql_password(browser: Browser) -> httpx.Response:
    return browser.http.post("/sluice/api/v1/sql/password", headers={"Sec-Fetch-Site": "same-origin"})


def test_a_person_gets_a_password_for_sql_that_ends_with_the_log_in(browser: Browser, site: Site) -> None:
    from sluice_airflow.auth import SECONDS

    assert sql_password(browser).status_code == 401
    browser.log_in("1")
    made = sql_password(browser)
    assert (made.status_code, made.json()["user"]) == (201, "ann")
    kept = Users(site.settings).all()["ann"]
    assert kept.password is not None
    assert kept.password.is_of(made.json()["password"])
    token = jwt_of(browser)
    assert kept.until == token["auth_time"] + SECONDS
    person = {"username": "ann", "password": made.json()["password"]}
    assert httpx.post(f"{site.url}/auth/token", json=person, trust_env=False).status_code == 401
    browser.get("/api/v2/auth/logout")
    assert Users(site.settings).all()["ann"].password is None


def test_a_page_makes_one_and_shows_it(browser: Browser, site: Site) -> None:
    browser.log_in("1")
    made = browser.http.post("/sluice/console/statements/password", headers={"Sec-Fetch-Site": "same-origin"})
    assert (made.status_code, made.headers["Cache-Control"]) == (200, "no-store")
    shown = re.search(r"password <code>([^<]+)</code>", made.text)
    kept = Users(site.settings).all()["ann"].password
    assert shown is not None
    assert kept is not None
    assert kept.is_of(html.unescape(shown[1]))


def test_a_local_user_gets_none(site: Site) -> None:
    joe = {"username": "joe", "password": Users(site.settings).add("joe", "viewer")}
    token = httpx.post(f"{site.url}/auth/token", json=joe, trust_env=False).json()["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{site.url}/sluice/api/v1/sql/password", headers=bearer, trust_env=False)
    assert (answer.status_code, "opens the SQL endpoint" in answer.text) == (409, True)


# Attacks from a browser


def test_a_state_ends_one_log_in(browser: Browser, site: Site, provider: OidcProvider) -> None:
    back = browser.sign_in(browser.begin(), "1")
    cookies = dict(browser.http.cookies)
    assert browser.come_back(back).status_code == 200
    refused(browser.come_back(back), "did not begin in this browser")  # the cookie is gone
    thief = Browser(site)
    thief.http.cookies.update({"_log_in": cookies["_log_in"]})
    asked = len(provider.asked)
    refused(thief.come_back(back), "has ended already")
    assert len(provider.asked) == asked


def test_nobody_is_logged_in_as_somebody_else(browser: Browser, site: Site) -> None:
    """Log-in CSRF: a page leads a victim to the end of a log-in that its author began."""
    author, victim = browser, Browser(site)
    back = author.sign_in(author.begin(), "1")
    refused(victim.come_back(back), "did not begin in this browser")
    victim.begin()
    refused(victim.come_back(back), "did not begin in this browser")
    assert victim.me() == ""


def test_a_cookie_is_of_one_user_of_this_machine(browser: Browser, site: Site) -> None:
    """A page on another port can plant a cookie, of a log-in that its author began."""
    author, victim = Browser(site, "127.0.0.9"), browser
    back = author.sign_in(author.begin(), "1")
    victim.http.cookies.update({"_log_in": author.http.cookies["_log_in"]})
    refused(victim.come_back(back), "did not begin in this browser")
    assert author.come_back(back).status_code == 200


def test_a_cookie_that_is_planted_beside_keeps_nobody_out(browser: Browser, site: Site) -> None:
    author = Browser(site, "127.0.0.9")
    author.begin()
    planted = author.http.cookies["_log_in"]
    back = browser.sign_in(browser.begin(), "1")
    own = browser.http.cookies["_log_in"]
    browser.http.cookies.clear()
    shown = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    both = f"_log_in={planted}; _log_in={own}; _log_in=; _log_in=x"
    assert browser.http.get(back, headers={**shown, "Cookie": both}).status_code == 200


def test_a_log_in_that_began_is_no_login(browser: Browser, site: Site) -> None:
    browser.begin()
    browser.http.cookies.update({"_token": browser.http.cookies["_log_in"]})
    assert browser.me() == ""
    other = Browser(site)
    other.log_in("1")
    other.http.cookies.update({"_log_in": other.http.cookies["_token"]})
    refused(other.come_back("/auth/provider/return?code=x&state=y"), "did not begin in this browser")


def test_a_log_in_takes_ten_minutes_at_most(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice_airflow.provider import state

    back = browser.sign_in(browser.begin(), "1")
    monkeypatch.setattr(state, "SECONDS", -1)
    refused(browser.come_back(back), "minutes ago")


@pytest.mark.parametrize(
    "there",
    [
        "https://evil.example/",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "http:evil.example",
        "http:///evil.example",
        "javascript:alert(1)",
        " //evil.example",
        "/\t/evil.example",
        "{own}//evil.example",
        "{own}@evil.example/",
        "http://127.0.0.1:1/dags",
        "http://[",
        "/" + "x" * 5000,
    ],
)
def test_nobody_is_led_elsewhere_after_the_log_in(browser: Browser, site: Site, there: str) -> None:
    answer = browser.log_in("1", there.replace("{own}", site.url))
    found = re.search(r'content="0; url=([^"]*)"', answer.text)
    assert found
    assert re.fullmatch(re.escape(site.url) + r"/(evil\.example)?", found[1])  # as a page of our own


def test_an_address_of_our_own_is_gone_to(site: Site) -> None:
    from sluice_airflow.provider.state import following

    assert following(f"{site.url}/dags?x=1#y", site.url) == "/dags?x=1#y"
    assert following("https://here/airflow/dags", "https://here/airflow") == "/dags"
    assert following("/sluice/console/", site.url) == "/sluice/console/"


def test_another_site_begins_no_log_in_and_ends_one_by_a_page_alone(browser: Browser) -> None:
    for site in ("cross-site", "same-site"):
        answer = browser.get("/auth/provider", site)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    back = browser.sign_in(browser.begin(), "1")
    alone = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for other in ({"Sec-Fetch-Mode": "no-cors"}, {"Sec-Fetch-Dest": "iframe"}, {"Origin": "http://evil"}):
        assert browser.http.get(back, headers={**alone, **other}).status_code == 403
    for method in ("POST", "PUT"):
        assert browser.http.request(method, back, headers=alone).status_code in (401, 403)
    assert browser.come_back(back).status_code == 200


def test_the_log_ins_of_a_source_are_limited(
    site: Site, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow.provider import routes

    monkeypatch.setattr(routes, "rate", Rate(routes.PER_MINUTE, clock=lambda: 0.0))  # one moment
    stranger = Browser(site, "127.0.0.9")
    said = [stranger.get("/auth/provider").status_code for _ in range(routes.PER_MINUTE + 5)]
    assert said == [303] * routes.PER_MINUTE + [403] * 5
    assert provider.asked.count("/.well-known/openid-configuration") == 1
    assert Browser(site).log_in("1").status_code == 200


@pytest.mark.parametrize("state", ["", "x", "ä", "\0", "x" * 9999])
def test_an_odd_state_is_a_wrong_one(browser: Browser, state: str) -> None:
    browser.begin()
    answer = browser.get("/auth/provider/return?" + urlencode({"state": state, "code": "x"}), "cross-site")
    assert answer.status_code in (400, 403)


@pytest.mark.parametrize("given", ["error=access_denied", "error=<script>", "code=", "x=1"])
def test_an_answer_without_a_code_logs_nobody_in(browser: Browser, given: str) -> None:
    state = fields(browser.begin())["state"]
    answer = browser.come_back(f"/auth/provider/return?state={state}&{given}")
    refused(answer, "The identity provider")
    assert "<script>" not in answer.text


def test_an_answer_of_another_provider_is_refused(browser: Browser) -> None:
    back = browser.sign_in(browser.begin(), "1")
    refused(browser.come_back(f"{back}&iss=https://evil.example"), "another identity provider".capitalize())


def test_a_code_is_taken_once(browser: Browser, site: Site) -> None:
    used = fields(browser.sign_in(browser.begin(), "1"))["code"]
    state = fields(browser.begin())["state"]
    back = f"/auth/provider/return?code={used}&state={state}"
    assert browser.come_back(back).status_code == 403  # of another log-in: its nonce is another one
    assert browser.me() == ""


# Attacks by a provider, or by somebody between

KEY = RSAKey.generate_key(2048, {"kid": "ours", "use": "sig"})


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def changed(**other: Any) -> Callable[[str], str]:
    """A token that the provider signed, with other claims; None leaves one out."""

    def forged(token: str) -> str:
        claims = {name: value for name, value in (claims_of(token) | other).items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "ours"}, claims, KEY)

    return forged


def unsigned(token: str) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(claims_of(token))}."


def by_public_key(key: bytes, **header: str) -> Callable[[str], str]:
    """HS256 with a key that everybody has."""

    def forged(token: str) -> str:
        text = f"{encoded({'alg': 'HS256', 'typ': 'JWT', **header})}.{encoded(claims_of(token))}"
        signature = hmac.digest(key, text.encode(), "sha256")
        return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    return forged


def signs_with(provider: OidcProvider, *keys: dict[str, Any]) -> None:
    provider.replaced["/jwks"] = lambda body: [json.dumps({"keys": keys}).encode()]


def test_a_token_that_this_file_signs_well_is_taken(browser: Browser, provider: OidcProvider) -> None:
    """Or the tests below would show nothing."""
    signs_with(provider, KEY.as_dict(private=False))
    provider.id_token(changed())
    assert browser.log_in("1").status_code == 200


LONG_AGO = int(time.time()) - 3600


@pytest.mark.parametrize(
    "other",
    [
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": ["sluice", "another"]},  # of several audiences one must be named as the asker (azp)
        {"azp": "another"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": LONG_AGO},
        {"exp": None},
        {"exp": "never"},
        {"iat": None},
        {"nbf": int(time.time()) + 3600},
        {"iat": int(time.time()) + 3600},
        {"sub": None},
        {"sub": ""},
        {"sub": ["1"]},
    ],
)
def test_a_token_for_somebody_else_or_another_time_is_refused(
    browser: Browser, provider: OidcProvider, site: Site, other: dict[str, Any]
) -> None:
    signs_with(provider, KEY.as_dict(private=False))
    provider.id_token(changed(**other))
    refused(browser.log_in("1"), "ID token is not valid")
    assert "ann" not in Users(site.settings).all()


@pytest.mark.parametrize(
    "how", ["none", "None", "another key", "unknown kid", "no token", "cut", "two parts"]
)
def test_a_token_that_the_provider_did_not_sign_is_refused(
    browser: Browser, provider: OidcProvider, how: str
) -> None:
    forged: dict[str, Callable[[str], Any]] = {
        "none": unsigned,
        "None": lambda token: unsigned(token).replace(encoded({"alg": "none"}), encoded({"alg": "None"})),
        "another key": lambda token: jwt.encode({"alg": "RS256"}, claims_of(token), KEY),
        "unknown kid": changed(),
        "no token": lambda token: None,
        "cut": lambda token: token[:-9],
        "two parts": lambda token: token.rpartition(".")[0],
    }
    provider.id_token(forged[how])
    refused(browser.log_in("1"), "ID token is not valid")


@pytest.mark.parametrize("header", [[], 7, {}, {"alg": []}, {"alg": None}, {"alg": "RS256", "kid": []}])
@pytest.mark.parametrize("claims", [{}, [], "x", 7])
def test_odd_tokens_are_refused(
    oidc: dict[str, Any], header: object, claims: object, provider: OidcProvider
) -> None:
    from sluice_airflow.provider import id_token
    from sluice_airflow.provider.refusal import ProviderRefusal

    parsed = Login.model_validate({"oidc": oidc}).oidc
    assert parsed is not None
    for signature in ("", "x", "ä", encoded("x" * 256)):
        token = f"{encoded(header)}.{encoded(claims)}.{signature}"
        with pytest.raises(ProviderRefusal, match="not valid"):
            id_token.check(token, {"keys": [KEY.as_dict(private=False)]}, parsed, "nonce")


@pytest.mark.parametrize("form", ["pem", "n"])
def test_a_public_key_is_no_secret(browser: Browser, provider: OidcProvider, form: str) -> None:
    signs_with(provider, KEY.as_dict(private=False))
    key = KEY.as_pem(private=False) if form == "pem" else str(KEY.as_dict(private=False)["n"]).encode()
    provider.id_token(by_public_key(key, kid="ours"))
    refused(browser.log_in("1"), "ID token is not valid")


def test_a_symmetric_key_among_the_keys_is_not_used(browser: Browser, provider: OidcProvider) -> None:
    secret = base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("=")
    signs_with(provider, {"kty": "oct", "k": secret, "kid": "ours"})
    provider.id_token(by_public_key(b"k" * 32, kid="ours"))
    refused(browser.log_in("1"), "ID token is not valid")


@pytest.mark.parametrize(
    "keys", [{}, {"keys": "x"}, {"keys": [{}]}, {"keys": [{"kty": "RSA"}]}, {"keys": [7]}]
)
def test_odd_keys_are_no_keys(browser: Browser, provider: OidcProvider, keys: object) -> None:
    provider.replaced["/jwks"] = lambda body: [json.dumps(keys).encode()]
    refused(browser.log_in("1"), "ID token is not valid")


def endless(body: bytes) -> Iterator[bytes]:
    for _ in range(100):
        yield b" " * (1 << 20)


#: Seconds; what is never answered must end long before, on a machine that does much else, too.
NEVER = 40


def never(body: bytes) -> Iterator[bytes]:
    yield b"{"
    for _ in range(5 * NEVER):
        time.sleep(0.2)  # slowly enough for any wait for the next byte
        yield b" "


@pytest.mark.parametrize("path", ["openid-configuration", "token", "/jwks"])
@pytest.mark.parametrize("how", [endless, never, lambda body: [b"["], lambda body: [b"[" * 200_000]])
def test_a_provider_that_does_not_answer_well_costs_a_bounded_time_and_size(
    site: Site, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch, path: str, how: Any
) -> None:
    from sluice_airflow.provider import web

    browser, first = Browser(site), "openid" in path
    back = "" if first else browser.sign_in(browser.begin(), "1")
    provider.replaced[path] = how
    monkeypatch.setattr(web, "SECONDS", 1.0)
    begin = time.monotonic()
    refused(browser.get("/auth/provider") if first else browser.come_back(back), "cannot be used now", 502)
    assert time.monotonic() - begin < NEVER / 2
    assert Browser(site).http.get("/auth/login").status_code == 200


def test_a_provider_that_is_not_there_keeps_no_local_user_out(site: Site, oidc: dict[str, Any]) -> None:
    site.set(oidc={**oidc, "issuer": "http://127.0.0.1:1"})
    refused(Browser(site).get("/auth/provider"), "cannot be used now", 502)
    person = {"username": "joe", "password": Users(site.settings).add("joe", "viewer")}
    assert httpx.post(f"{site.url}/auth/token", json=person, trust_env=False).status_code == 201


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "issuer"])
@pytest.mark.parametrize(
    "value", ["http://169.254.169.254/latest", "file:///etc/passwd", "", "http://[", None]
)
def test_a_provider_leads_to_no_host_that_the_settings_do_not_name(
    browser: Browser, provider: OidcProvider, name: str, value: str | None
) -> None:
    provider.discovery(**{name: value})
    refused(browser.get("/auth/provider"), "cannot be used now", 502)


def test_a_redirect_of_the_provider_is_not_followed(browser: Browser, provider: OidcProvider) -> None:
    provider.redirected["/jwks"] = f"{provider.url}/jwks?again"
    refused(browser.log_in("1"), "cannot be used now", 502)


# Settings


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"issuer": "http://id.example.org"}, "https://"),
        ({"issuer": "id.example.org"}, "https://"),
        ({"issuer": "https://id.example.org/?x=1"}, "without"),
        ({"issuer": "https://id.example.org:x"}, "issuer"),
        ({"hosts": ["https://keys.example.org"]}, "HOST:PORT"),
        ({"hosts": ["keys.example.org:99999"]}, "hosts"),
        ({"roles": {}}, "roles"),
        ({"roles": {"owner": ["x"]}}, "roles"),
        ({"scopes": ["profile"]}, "openid"),
        ({"client_id": ""}, "client_id"),
        ({"client_secret": "x"}, "client_secret"),
    ],
)
def test_settings_that_are_not_safe_are_refused(
    oidc: dict[str, Any], other: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        Login.model_validate({"oidc": {**oidc, **other}})


def test_settings_come_from_the_environment_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_LOGIN__OIDC__ISSUER", "https://id.example.org/realms/one")
    monkeypatch.setenv("SLUICE_LOGIN__OIDC__CLIENT_ID", "sluice")
    monkeypatch.setenv("SLUICE_LOGIN__OIDC__ROLES", '{"user": ["staff"]}')
    monkeypatch.setenv("SLUICE_LOGIN__OIDC__HOSTS", '["keys.example.org:8443", "id.example.org"]')
    login = Settings(instance="test", home=tmp_path).login
    assert login.targets == (("id.example.org", 443), ("keys.example.org", 8443))
    assert login.origins == ("oidc",)


def test_without_the_setting_the_log_in_page_is_airflow_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_in_site(monkeypatch) as site:
        site.at(tmp_path)
        page = Browser(site).http.get("/auth/login")
        assert page.status_code == 200
        assert "provider" not in page.text
        assert Browser(site).get("/auth/provider/return", "cross-site").text == page.text  # as any other name

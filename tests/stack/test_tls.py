"""The doors' certificate: whose it is, for which names, until when, and which one will not do."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import ValidationError

from sluice.runtime import authority
from sluice.runtime.settings import Settings
from sluice.stack import tls
from sluice.stack.airflow.configuration import airflow_environment
from sluice.stack.tls import BadCertificate, prepare_tls
from sluice_hosts.trust import certificates

Made = Callable[..., Settings]


def of(home: Path, **given: Any) -> Settings:
    return Settings(instance="test", home=home, **{"tls": {"mode": "on"}, **given})


def certificate(settings: Settings) -> x509.Certificate:
    return x509.load_pem_x509_certificate((tls.folder(settings) / tls.CERTIFICATE).read_bytes())


@pytest.fixture
def own(tmp_path: Path) -> Made:
    """Settings with a certificate of the user's own, made out to these names."""

    def make(*names: str, valid: timedelta = timedelta(days=90), **given: Any) -> Settings:
        made = authority.issue(tmp_path / "theirs", "own", names, [authority.SERVER], valid)
        (tmp_path / "own.crt").write_bytes(made.certificate.public_bytes(Encoding.PEM))
        (tmp_path / "own.key").write_bytes(authority.pem(made.key))
        (tmp_path / "own.ca").write_bytes(authority.certificate(tmp_path / "theirs"))
        files = {"certificate": "crt", "key": "key", "authority": "ca"}
        paths = {name: str(tmp_path / f"own.{end}") for name, end in files.items()}
        return of(tmp_path / "home", **{"tls": {"mode": "on", **paths}, **given})

    return make


@pytest.mark.parametrize(
    ("address", "mode", "on"),
    [
        ("127.0.0.1", "auto", False),
        ("127.0.0.2", "auto", False),
        ("localhost", "auto", False),
        ("::1", "auto", False),
        ("10.0.0.1", "auto", True),
        ("0.0.0.0", "auto", True),  # noqa: S104 - nothing is bound
        ("sluice.example", "auto", True),
        ("127.0.0.1", "on", True),
        ("10.0.0.1", "off", False),
        ("127.0.0.1", True, True),  # YAML reads on and off so
        ("10.0.0.1", False, False),
    ],
)
def test_doors_speak_tls_unless_they_listen_on_loopback(
    tmp_path: Path, address: str, mode: str | bool, on: bool
) -> None:
    settings = of(tmp_path, bind_host=address, tls={"mode": mode})
    assert settings.airflow.url.startswith("https:") is on
    assert bool(settings.airflow.root_certificate) is on
    assert bool(settings.hive.root_certificate) is on
    assert bool(settings.postgres.root_certificate) is on
    assert set(tls.doors(settings)) == ({"airflow", "sql"} if on else set())
    variables = airflow_environment(settings)
    assert ("AIRFLOW__API__SSL_CERT" in variables) is on
    assert variables["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].startswith("https:") is on
    prepare_tls(settings)
    assert tls.folder(settings).exists() is on


def test_a_door_of_another_airflow_is_not_the_instance_s(tmp_path: Path) -> None:
    settings = of(tmp_path, external={"airflow"}, airflow={"url": "https://airflow.example"})
    assert set(tls.doors(settings)) == {"sql"}
    assert settings.airflow.root_certificate == ""


def test_the_instance_makes_a_certificate_for_its_names(tmp_path: Path) -> None:
    settings = of(tmp_path, tls={"mode": "on", "names": ["sluice.example", "10.0.0.7"]})
    prepare_tls(settings)
    found = tls.shown(settings)
    assert set(found.names) == {"127.0.0.1", "::1", "localhost", "sluice.example", "10.0.0.7"}
    usage = certificate(settings).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [authority.SERVER]  # hosts show theirs as clients, and this is none of a host
    for path in tls.folder(settings).iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert tls.folder(settings).stat().st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "hosts" / authority.FILE).st_mode & 0o777 == 0o600


def test_hosts_and_doors_have_one_authority(tmp_path: Path) -> None:
    settings = of(tmp_path)
    certificates.issue(tmp_path / "hosts", "local", "127.0.0.1")
    prepare_tls(settings)
    assert Path(settings.airflow.root_certificate).read_bytes() == authority.certificate(tmp_path / "hosts")


def test_a_certificate_stays_until_it_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "VALID", tls.EARLY + timedelta(hours=1))
    prepare_tls(of(tmp_path))
    first = certificate(of(tmp_path))
    prepare_tls(of(tmp_path))
    assert certificate(of(tmp_path)) == first
    monkeypatch.setattr(tls, "EARLY", tls.EARLY + timedelta(hours=2))
    prepare_tls(of(tmp_path))
    assert certificate(of(tmp_path)) != first


def test_a_door_that_runs_renews_what_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_tls(of(tmp_path))
    first, context = certificate(of(tmp_path)), tls.Context(of(tmp_path))
    before = context()
    assert context() is before
    monkeypatch.setattr(tls, "EARLY", timedelta(days=396))
    assert context() is before  # it looks once an hour
    monkeypatch.setattr(tls, "_SECONDS", 0.0)
    monkeypatch.setattr(tls, "EARLY", timedelta(days=398))
    assert context() is not before
    assert certificate(of(tmp_path)) != first


def test_a_door_that_runs_keeps_what_it_has_if_the_new_one_will_not_do(
    own: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = own("127.0.0.1")
    prepare_tls(settings)
    context = tls.Context(settings)
    before = context()
    Path(settings.tls.key).write_bytes(b"half a ")
    monkeypatch.setattr(tls, "_SECONDS", 0.0)
    assert context() is before


def test_an_expired_certificate_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as past:
        past.setattr(tls, "VALID", timedelta(hours=-1))
        past.setattr(tls, "_check", lambda *_: None)
        prepare_tls(of(tmp_path))
    before = certificate(of(tmp_path))
    prepare_tls(of(tmp_path))
    assert certificate(of(tmp_path)).not_valid_after_utc > before.not_valid_after_utc + timedelta(days=300)


@pytest.mark.slow
def test_another_name_or_another_authority_makes_another_one(tmp_path: Path) -> None:
    prepare_tls(of(tmp_path))
    first = certificate(of(tmp_path))
    prepare_tls(of(tmp_path, tls={"mode": "on", "names": ["sluice.example"]}))
    second = certificate(of(tmp_path))
    assert "sluice.example" in tls.shown(of(tmp_path)).names
    (tmp_path / "hosts" / authority.FILE).unlink()
    prepare_tls(of(tmp_path))
    assert len({first, second, certificate(of(tmp_path))}) == 3


def test_an_authority_that_has_ended_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority, "DECADE", timedelta(hours=-1))
    with pytest.raises(BadCertificate, match=r"hosts/authority\.pem has ended.*: remove it, run `sluice up`"):
        prepare_tls(of(tmp_path))


def test_a_certificate_of_one_s_own_is_shown(own: Made) -> None:
    settings = own("127.0.0.1", "sluice.example")
    prepare_tls(settings)
    assert tls.shown(settings).names == ["127.0.0.1", "sluice.example"]
    context = tls.Context(settings)
    assert context() is context()
    assert not (settings.home / "hosts").exists()


def test_it_must_name_where_the_platform_reaches_the_door(own: Made) -> None:
    with pytest.raises(BadCertificate) as refused:
        prepare_tls(own("sluice.example"))
    assert "is made out to sluice.example" in str(refused.value)
    assert "SLUICE_AIRFLOW__URL" in str(refused.value)
    with pytest.raises(BadCertificate, match="SLUICE_HIVE__HOST"):
        prepare_tls(own("sluice.example", airflow={"url": "https://sluice.example:23080"}))
    both = {"airflow": {"url": "https://sluice.example:23080"}, "hive": {"host": "sluice.example"}}
    prepare_tls(own("sluice.example", **both))


def test_it_must_not_have_ended(own: Made) -> None:
    with pytest.raises(BadCertificate, match=r"ended on \d{4}-\d\d-\d\d: get a new one"):
        prepare_tls(own("127.0.0.1", valid=timedelta(hours=-1)))


def test_one_that_has_ended_meanwhile_is_said_too(own: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(tls, "_check", lambda *_: None)
        settings = own("127.0.0.1", valid=timedelta(hours=-1))
        prepare_tls(settings)
    with pytest.raises(BadCertificate, match="ended on"):
        prepare_tls(settings)


def test_the_key_must_be_its_own(own: Made) -> None:
    settings = own("127.0.0.1")
    before = Path(settings.tls.key)
    before.write_bytes(authority.pem(authority.load(before.parent / "another")[0]))
    with pytest.raises(BadCertificate, match=r"own\.key is not the key of .*own\.crt: give the two together"):
        prepare_tls(settings)


def test_the_authority_must_be_its_own(own: Made) -> None:
    settings = own("127.0.0.1")
    path = Path(settings.tls.authority)
    path.write_bytes(authority.certificate(path.parent / "another"))
    with pytest.raises(BadCertificate, match=r"tls\.authority: .*own\.ca did not sign .*own\.crt"):
        prepare_tls(settings)


def test_the_key_must_have_no_password(own: Made) -> None:
    settings = own("127.0.0.1")
    path = Path(settings.tls.key)
    key = load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")))
    with pytest.raises(BadCertificate, match="without one"):
        prepare_tls(settings)


@pytest.mark.parametrize("name", ["certificate", "key", "authority"])
@pytest.mark.parametrize("data", [None, b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_files_that_cannot_be_used_are_named(own: Made, name: str, data: bytes | None) -> None:
    settings = own("127.0.0.1")
    path = Path(getattr(settings.tls, name))
    path.unlink() if data is None else path.write_bytes(data)
    with pytest.raises(BadCertificate) as refused:
        prepare_tls(settings)
    assert str(path) in str(refused.value)
    assert not (tls.folder(settings) / tls.KEY).exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls": {"mode": "maybe"}}, "mode"),
        ({"tls": {"certificate": "/a"}}, "key: is missing"),
        ({"tls": {"certificate": "/a", "key": "/b"}}, "authority: is missing"),
        ({"tls": {"certificate": "/a", "key": "/b", "authority": "/c", "names": ["a"]}}, "leave them out"),
        ({"tls": {"names": ["a b"]}}, "'a b' is no name"),
        ({"tls": {"names": ["*.example"]}}, "is no name"),
        ({"tls": {"mode": "on"}, "airflow": {"url": "http://a:1"}}, "begin it with https:"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(instance="test", home=tmp_path, **given)


def test_the_server_s_side_takes_no_old_tls(tmp_path: Path) -> None:
    prepare_tls(of(tmp_path))
    assert tls.Context(of(tmp_path))().minimum_version == ssl.TLSVersion.TLSv1_2

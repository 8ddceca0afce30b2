"""What an Airflow connection says of a host: what is taken, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import asyncssh
import pytest

from sluice.runtime.settings import Settings
from sluice_hosts.hosts import Host
from sluice_hosts.trust.login import LoginError, SshLogin, algorithms, of_connection

HOST = Host(name="h1", address="127.0.1.1", connection="ssh_h1")
KEY = asyncssh.generate_private_key("ssh-ed25519", comment="somebody")
PRIVATE = KEY.export_private_key("openssh").decode()
LOCKED = KEY.export_private_key("pkcs8-pem", "secret").decode()
PUBLIC = " ".join(KEY.export_public_key("openssh").decode().split()[:2])
RSA = asyncssh.generate_private_key("ssh-rsa").export_public_key("openssh").decode().split()
PLAIN = {"conn_type": "ssh", "host": "127.0.1.9", "port": 2222, "login": "sluice", "password": None}


def read(settings: Settings, **fields: Any) -> SshLogin:
    return of_connection(settings, HOST, {**PLAIN, **fields})


def test_the_fields_of_the_provider_are_taken(settings: Settings) -> None:
    said = read(settings, extra={"private_key": PRIVATE, "host_key": f"{PUBLIC} somebody"})
    assert said == SshLogin("127.0.1.9", 2222, "sluice", "", PRIVATE, PUBLIC, "ssh_h1")
    assert PRIVATE not in repr(said)
    # As Airflow's own classes and its command give them.
    assert read(settings, port="2222", extra=json.dumps({"private_key": PRIVATE, "host_key": PUBLIC})) == said
    assert read(settings, extra={"key_file": "/etc/key"}).key_file == "/etc/key"
    assert read(settings, extra={"host_key": RSA[1]}).host_key == " ".join(RSA[:2])


@pytest.mark.parametrize("extra", [None, "", "{}", {}])
def test_what_is_left_out_has_a_default(settings: Settings, extra: str | Mapping[str, str] | None) -> None:
    said = read(settings, host=None, port=None, extra=extra)
    assert said == SshLogin("127.0.1.1", 22, "sluice", connection="ssh_h1")


def test_what_is_empty_or_false_asks_for_nothing(settings: Settings) -> None:
    nothing = {"no_host_key_check": "false", "allow_host_key_change": False, "key_file": "", "ciphers": None}
    assert read(settings, extra=nothing) == read(settings)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "http"}, r"conn_type = 'http': no SSH connection; give it the type ssh"),
        ({"host": "10.0.0.300"}, r"host = '10\.0\.0\.300': no IPv4 address; write four"),
        ({"host": "10.0.0.13"}, r"host = '10\.0\.0\.13': .*network is private .*; set network: host"),
        ({"host": "a b"}, r"host = 'a b': no IPv4 address or name of a machine; correct it"),
        ({"login": None}, r"login: missing; add the account"),
        ({"login": "a b"}, r"login = 'a b': .*; correct it"),
        ({"port": 70_000}, r"port = '70000': .*; correct it"),
        ({"extra": "["}, r"extra: no JSON object; write \{\.\.\.\}"),
        ({"extra": "[1]"}, r"extra: no JSON object"),
        ({"extra": {"no_host_key_check": "true"}}, r"extra\.no_host_key_check: the host's key is pinned"),
        (
            {"extra": {"allow_host_key_change": True}},
            r"extra\.allow_host_key_change: the host's key is pinned",
        ),
        ({"extra": {"look_for_keys": True}}, r"extra\.look_for_keys: Sluice looks for no key; remove it"),
        ({"extra": {"conn_timeout": 5}}, r"extra\.conn_timeout: Sluice does not support it; remove it"),
        ({"extra": {"disabled_algorithms": {}}}, r"extra\.disabled_algorithms: Sluice does not"),
        ({"extra": {"key_file": "key"}}, r"extra\.key_file = 'key': give the whole path"),
        (
            {"extra": {"key_file": "/k", "private_key": PRIVATE}},
            r"extra\.key_file: private_key is given, too",
        ),
        (
            {"extra": {"host_key": "ssh-ed25519 AAAA"}},
            r"extra\.host_key = 'ssh-ed25519 AAAA': Invalid public",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_field_and_a_remedy(
    settings: Settings, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(LoginError, match=rf"^host h1: connection ssh_h1: .*{said}"):
        read(settings, **fields)


@pytest.mark.parametrize(
    ("fields", "secret", "said"),
    [
        ({"password": "opensesame"}, "opensesame", r"password: Sluice logs in with a key only"),
        (
            {"extra": {"private_key_passphrase": "opensesame"}},
            "opensesame",
            r"private_key_passphrase: give the key without a passphrase",
        ),
        ({"extra": {"private_key": LOCKED}}, LOCKED[40:60], r"private_key: .*Passphrase must be specified"),
        ({"extra": {"private_key": "opensesame"}}, "opensesame", r"private_key: cannot be used"),
        ({"extra": {"opensesame_key": "hidden"}}, "hidden", r"extra\.opensesame_key: Sluice does not"),
    ],
)
def test_no_error_shows_a_secret(settings: Settings, fields: dict[str, Any], secret: str, said: str) -> None:
    with pytest.raises(LoginError, match=said) as refused:
        read(settings, **fields)
    assert secret not in str(refused.value)


def test_all_mistakes_are_named_at_once(settings: Settings) -> None:
    with pytest.raises(LoginError) as refused:
        read(settings, conn_type="ftp", login="", password="x", extra={"ciphers": ["a"], "compress": True})
    assert all(
        part in str(refused.value) for part in ("conn_type", "login", "password", "ciphers", "compress")
    )
    assert str(refused.value).count(";") >= 5


def test_a_host_key_says_how_it_is_proved() -> None:
    assert algorithms(PUBLIC) == ["ssh-ed25519"]
    assert "rsa-sha2-512" in algorithms(" ".join(RSA[:2]))

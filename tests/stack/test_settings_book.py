"""Settings that changed between two starts are told, secrets never."""

from __future__ import annotations

from pathlib import Path

from sluice.runtime.login_settings import Login
from sluice.runtime.sections import Retention
from sluice.runtime.settings import Settings
from sluice.stack import secrets
from sluice.stack.settings_book import FILE, changed


def test_what_changed_is_told_once(tmp_path: Path) -> None:
    secrets.make_missing(Settings(instance="test", home=tmp_path))
    before = Settings(instance="test", home=tmp_path)
    assert changed(before) == ({}, {})
    after = before.model_copy(update={"retention": Retention(days=7), "doors": ("sql",)})
    assert changed(after) == (
        {"doors": ["airflow", "postgres", "sql"], "retention.days": 400},
        {"doors": ["sql"], "retention.days": 7},
    )
    assert changed(after) == ({}, {})


def test_no_secret_is_kept(tmp_path: Path) -> None:
    secrets.make_missing(Settings(instance="test", home=tmp_path))
    settings = Settings(instance="test", home=tmp_path)
    changed(settings)
    text = (tmp_path / "secrets" / FILE).read_text()
    for secret in (settings.postgres.password, settings.hive.password, settings.kafka.identity_key):
        assert secret
        assert secret not in text


def test_other_ways_to_log_in_are_told(tmp_path: Path) -> None:
    before = Settings(instance="test", home=tmp_path)
    secrets.make_missing(before)
    changed(before)
    ldap = {"url": "ldaps://ldap.example.org", "user_base": "dc=x", "roles": {"op": ["a", "b"]}}
    after = before.model_copy(update={"login": Login.model_validate({"ldap": ldap})})
    told = changed(after)[1]
    assert told["login.ldap.url"] == "ldaps://ldap.example.org"
    assert told["login.ldap.roles.op"] == ["a", "b"]


def test_of_a_file_beside_the_settings_the_lines_that_changed_are_told(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path)
    secrets.make_missing(settings)
    hosts, inventory = tmp_path / "hosts.yaml", tmp_path / "collection.yaml"
    hosts.write_text("- name: web1\n  address: 10.0.0.1\n")
    changed(settings)  # by a release that did not know of them
    assert changed(settings, [hosts, inventory]) == ({}, {})
    hosts.write_text("- name: web1\n  address: 10.0.0.2\n")
    inventory.write_text("topic: logs\n")
    assert changed(settings, [hosts, inventory]) == (
        {"hosts.yaml": ["  address: 10.0.0.1"], "collection.yaml": []},
        {"hosts.yaml": ["  address: 10.0.0.2"], "collection.yaml": ["topic: logs"]},
    )
    assert changed(settings, [hosts, inventory]) == ({}, {})

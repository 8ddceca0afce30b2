"""The instance's passwords and keys, made once.

They are in files of mode 0600 below a directory of mode 0700.
"""

from __future__ import annotations

import os

from sluice.runtime import given_secrets, inherited
from sluice.runtime.settings import Settings, get_settings, make_secret
from sluice.stack.airflow import platform_user
from sluice.stack.airflow.configuration import PREFIX as AIRFLOW_PREFIX
from sluice.stack.networking import private
from sluice.stack.users import prepare_users

#: The passwords of PostgreSQL's roles: for Sluice's database, Airflow's and the metastore's.
POSTGRES = ("postgres", "postgres_airflow", "postgres_metastore")
AIRFLOW = ("airflow_jwt", "airflow_api", "airflow_admin", "airflow_fernet", platform_user.SECRET)


def make(settings: Settings) -> None:
    """Make the missing secrets, and give the platform's own users the passwords among them."""
    make_missing(settings)
    prepare_users(settings)


def keep_given(settings: Settings) -> None:
    """Keep what this process's environment gives, and nothing else, in the instance's file for it."""
    given_secrets.write(given_secrets.file(settings.home), _given())


def add_given(settings: Settings) -> None:
    """The same, but keep what others gave; for containers, each of which has an environment."""
    if found := _given():
        path = given_secrets.file(settings.home)
        given_secrets.write(path, {**given_secrets.read(settings.home), **found})


def _given() -> dict[str, str]:
    """Secret settings, and all that is for Airflow, which has connections in its variables."""
    airflow = {name: value for name, value in os.environ.items() if name.startswith(AIRFLOW_PREFIX)}
    return {**inherited.secrets(os.environ), **airflow}


def make_missing(settings: Settings) -> None:
    """Make the missing secrets; the password of an external service is a setting instead."""
    private.close(settings)
    own: tuple[str, ...] = () if "postgres" in settings.external else POSTGRES
    own += () if "sql" in settings.external else ("sql",)
    for name in (*own, "identity", *AIRFLOW):
        make_secret(settings.home, name)
    get_settings.cache_clear()

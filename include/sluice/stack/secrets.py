"""The instance's passwords and keys, made once.

They are in files of mode 0600 below a directory of mode 0700.
"""

from __future__ import annotations

import json

from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings, get_settings, make_secret, read_secret

AIRFLOW = ("airflow_jwt", "airflow_api", "airflow_admin", "airflow_fernet")
PASSWORDS = "airflow_passwords.json"


def make(settings: Settings) -> None:
    """Make the missing secrets; the password of an external PostgreSQL is a setting instead."""
    names = AIRFLOW if "postgres" in settings.external else ("postgres", *AIRFLOW)
    for name in names:
        make_secret(settings.home, name)
    _write_passwords(settings)
    get_settings.cache_clear()


def _write_passwords(settings: Settings) -> None:
    """The file from which Airflow's SimpleAuthManager takes its users' passwords."""
    path = settings.home / "secrets" / PASSWORDS
    wanted = json.dumps({settings.airflow.user: read_secret(settings.home, "airflow_admin")})
    if path.exists() and path.read_text() == wanted:
        return
    write_whole(path, wanted, 0o600)

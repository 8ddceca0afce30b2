"""The instance's passwords and keys, made once.

They are in files of mode 0600 below a directory of mode 0700.
"""

from __future__ import annotations

from sluice.runtime.settings import Settings, get_settings, make_secret
from sluice.stack.users import Users

AIRFLOW = ("airflow_jwt", "airflow_api", "airflow_admin", "airflow_fernet")


def make(settings: Settings) -> None:
    """Make the missing secrets; the password of an external service is a setting instead."""
    for name in ("postgres", "sql", *AIRFLOW):
        if name not in settings.external:
            make_secret(settings.home, name)
    Users(settings).ensure_own(settings)
    get_settings.cache_clear()

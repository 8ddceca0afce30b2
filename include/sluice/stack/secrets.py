"""The instance's passwords and keys, made once.

They are in files of mode 0600 below a directory of mode 0700.
"""

from __future__ import annotations

from sluice.runtime.settings import Settings, get_settings, make_secret
from sluice.stack import platform_user, private
from sluice.stack.users import prepare_users

AIRFLOW = ("airflow_jwt", "airflow_api", "airflow_admin", "airflow_fernet", platform_user.SECRET)


def make(settings: Settings) -> None:
    """Make the missing secrets, and give the platform's own users the passwords among them."""
    make_missing(settings)
    prepare_users(settings)


def make_missing(settings: Settings) -> None:
    """Make the missing secrets; the password of an external service is a setting instead."""
    private.close(settings)
    for name in ("postgres", "sql", "identity", *AIRFLOW):
        if name not in settings.external:
            make_secret(settings.home, name)
    get_settings.cache_clear()

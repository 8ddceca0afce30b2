"""The API that the client asks: the application and the login of the plugins' tests."""

from __future__ import annotations

import tests.plugins.conftest  # noqa: F401 (lets Airflow be imported)
from tests.plugins.application import app, client, database, login

__all__ = ["app", "client", "database", "login"]

"""Airflow's REST API v2 over HTTP, logged in as the admin."""

from __future__ import annotations

import time
from typing import Any

import httpx

from sluice.runtime.settings import Settings, read_secret

REQUEST_SECONDS = 120.0  # the first requests after a start take half a minute on two busy cores
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 1.0
UNAUTHORIZED, SERVER_ERROR = 401, 500


class AirflowError(RuntimeError):
    """Airflow refused a request; the message has its reason."""

    def __init__(self, what: str, response: httpx.Response) -> None:
        super().__init__(f"{what}: {response.status_code} {response.text[:500]}")
        self.status = response.status_code


class AirflowHttp:
    """One connection to the API of one instance."""

    def __init__(self, settings: Settings) -> None:
        self._user = settings.airflow.user
        self._password = read_secret(settings.home, "airflow_admin")
        self._http = httpx.Client(base_url=settings.airflow.url, timeout=REQUEST_SECONDS, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, **kwargs: Any) -> Any:
        """One request, logged in. A question is asked again while the API or its database restarts."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._once(method, path, **kwargs)
            except (httpx.TransportError, AirflowError) as error:
                lasting = isinstance(error, AirflowError) and error.status < SERVER_ERROR
                sent = method != "GET" and not isinstance(error, httpx.ConnectError)
                if lasting or sent or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def token(self) -> str:
        """Log in; what proves it, in the header `Authorization: Bearer ...`."""
        login = {"username": self._user, "password": self._password}
        response = self._http.post("/auth/token", json=login)
        if response.is_error:
            raise AirflowError(f"log in as {self._user}", response)
        return str(response.json()["access_token"])

    def _once(self, method: str, path: str, **kwargs: Any) -> Any:
        response = self._http.request(method, f"/api/v2/{path}", **kwargs)
        if response.status_code == UNAUTHORIZED:  # the first request, or the token is too old
            self._log_in()
            response = self._http.request(method, f"/api/v2/{path}", **kwargs)
        if response.is_error:
            raise AirflowError(f"{method} {response.url}", response)
        return response.json() if response.content else None

    def _log_in(self) -> None:
        self._http.headers["Authorization"] = f"Bearer {self.token()}"

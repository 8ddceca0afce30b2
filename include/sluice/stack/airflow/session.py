"""Airflow's own client for its REST API v2, as the platform's own user; it waits out restarts."""

from __future__ import annotations

from typing import Any

from airflow_client.client import ApiClient, Configuration
from airflow_client.client.rest import RESTResponse
from urllib3 import Retry

from sluice.runtime.settings import Settings, read_secret
from sluice.stack.airflow import platform_user
from sluice.stack.airflow.answers import AirflowError

REQUEST_SECONDS = 120.0  # the first requests after a start take half a minute on two busy cores
#: A GET request is repeated for two minutes while the API or its database restarts. Any other request is
#: repeated only if it could not be sent.
PATIENCE = Retry(
    total=120,
    read=1,
    backoff_factor=0.5,
    backoff_max=1.0,
    allowed_methods={"GET"},
    status_forcelist=frozenset(range(500, 600)),
    raise_on_status=False,
)
UNAUTHORIZED, ERROR = 401, 400


class AirflowSession(ApiClient):
    """The client for all calls to one instance.

    In an external Airflow, or with another auth manager, it logs in as `airflow.user` when it must.

    for_user: the person for whom the platform acts: Airflow records this name. "": the platform itself.
    """

    def __init__(self, settings: Settings, for_user: str = "") -> None:
        trusted = settings.airflow.root_certificate or None
        super().__init__(
            Configuration(host=settings.airflow.url, no_proxy="*", retries=PATIENCE, ssl_ca_cert=trusted)
        )
        self._settings, self._for_user = settings, for_user
        self._token = ""  # kept from a log-in; the platform's own are made anew for each request

    def call_api(
        self, method: str, url: str, header_params: dict[str, str] | None = None, *args: Any, **options: Any
    ) -> RESTResponse:
        """Send one request. Raises AirflowError, or what urllib3 raises while the API is away."""
        headers = dict(header_params or {})
        options["_request_timeout"] = options.get("_request_timeout") or REQUEST_SECONDS
        headers["Authorization"] = f"Bearer {self._token or self._new_token()}"
        response = super().call_api(method, url, headers, *args, **options)
        if response.status == UNAUTHORIZED:  # the token is too old, also after a request that was repeated
            headers["Authorization"] = f"Bearer {self._new_token()}"
            response = super().call_api(method, url, headers, *args, **options)
        if response.status >= ERROR:
            raise AirflowError(f"{method} {url}", response.status, response.response.data)
        return response

    def _new_token(self) -> str:
        if platform_user.applies(self._settings):
            return platform_user.sign(self._settings, self._for_user)
        user = self._settings.airflow.user
        response = self.rest_client.pool_manager.request(
            "POST",
            f"{self.configuration.host}/auth/token",
            json={"username": user, "password": read_secret(self._settings.home, "airflow_admin")},
            timeout=REQUEST_SECONDS,
        )
        if response.status >= ERROR:
            raise AirflowError(f"log in as {user}", response.status, response.data)
        self._token = str(response.json()["access_token"])
        return self._token

"""Requests to the REST API: logs in when it must, waits while the server is busy, and names what failed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from sluice.client.errors import Unreachable, of_answer

API = "/sluice/api/v1"
OK, UNAUTHORIZED = 300, 401
BUSY = (429, 503)
CONNECT_SECONDS = 10.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Bearer(AuthBase):
    """Sends a token, whatever a .netrc says."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Session:
    """Requests in the name of one user. `patience`: for how many seconds it asks a busy server again.

    `authority`: the file by which an https server is checked; without it, those that requests knows.
    """

    def __init__(
        self, url: str, user: str, password: str, patience: float, authority: str | None = None
    ) -> None:
        self._url, self._user, self._password, self._patience = url.rstrip("/"), user, password, patience
        self._http = requests.Session()
        self._http.trust_env = urlsplit(url).hostname not in _LOOPBACK  # no proxy leads to oneself
        self._http.verify = authority or True
        self._token: str | None = None

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        stream: bool = False,
        silence: float = 120.0,
    ) -> requests.Response:
        """An answer with a good status; `silence`: how long the server may say nothing.

        Raises SluiceError's subclasses.
        """
        deadline = time.monotonic() + self._patience
        while True:
            fresh = self._token is None
            answer = self._send(path, params, headers, stream, silence)
            if answer.status_code < OK:
                return answer
            with answer:
                if answer.status_code == UNAUTHORIZED and not fresh:
                    self._token = None  # it was too old
                    continue
                pause = _pause(answer)
                if answer.status_code not in BUSY or time.monotonic() + pause > deadline:
                    raise of_answer(answer.status_code, _json(answer))
            time.sleep(pause)

    def log_in(self) -> None:
        """Get a token. Raises LoginRefused, Busy and Unreachable."""
        login = {"username": self._user, "password": self._password}
        timeout = (CONNECT_SECONDS, 120.0)
        try:
            answer = self._http.post(f"{self._url}/auth/token", json=login, timeout=timeout)
        except requests.RequestException as error:
            raise self._unreachable(error) from error
        body = _json(answer)
        if answer.status_code >= OK or not isinstance(body, dict) or "access_token" not in body:
            raise of_answer(answer.status_code, body)
        self._token = body["access_token"]

    def forget(self) -> None:
        """Log in again for the next request."""
        self._token = None

    def close(self) -> None:
        self._http.close()

    def _send(
        self,
        path: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        stream: bool,
        silence: float,
    ) -> requests.Response:
        if self._token is None:
            self.log_in()
        try:
            return self._http.get(
                self._url + API + path,
                params=params,
                headers=dict(headers or {}),
                auth=_Bearer(self._token or ""),
                stream=stream,
                timeout=(CONNECT_SECONDS, silence),
            )
        except requests.RequestException as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self._url} does not answer: {str(error)[:300]}")


def _pause(answer: requests.Response) -> float:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 1.0


def _json(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None

"""A real OpenID Connect provider on a port of its own, some of whose answers a test may replace."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import oidc_provider_mock
from oidc_provider_mock._storage import User
from werkzeug.serving import WSGIRequestHandler, make_server

Answer = Callable[[bytes], Iterable[bytes]]


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


@dataclass
class OidcProvider:
    """The provider. replaced: by the end of a path, what makes its answer of the real one."""

    url: str = ""
    replaced: dict[str, Answer] = field(default_factory=dict)
    redirected: dict[str, str] = field(default_factory=dict)  # paths, and where they lead
    forms: list[dict[str, str]] = field(default_factory=list)  # that were sent to the token endpoint
    asked: list[str] = field(default_factory=list)  # paths

    def discovery(self, **other: Any) -> None:
        """Have it say something else of itself."""
        self.replaced["openid-configuration"] = lambda body: [json.dumps(json.loads(body) | other).encode()]

    def id_token(self, forged: Callable[[str], str]) -> None:
        """Have it give another ID token, made of the real one."""

        def answer(body: bytes) -> list[bytes]:
            said = json.loads(body)
            return [json.dumps(said | {"id_token": forged(said["id_token"])}).encode()]

        self.replaced["token"] = answer


@contextmanager
def oidc_provider(*people: tuple[str, dict[str, Any]]) -> Iterator[OidcProvider]:
    """The provider with these people: what it calls them, and their claims."""
    logging.getLogger("oidc_provider_mock").setLevel(logging.ERROR)
    real = oidc_provider_mock.app(user_claims=[User(sub=sub, claims=claims) for sub, claims in people])
    made = OidcProvider()

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        made.asked.append(path)
        replace = next((each for end, each in made.replaced.items() if path.endswith(end)), None)
        if path.endswith("/token"):
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            made.forms.append({name: value for name, (value, *_) in parse_qs(body.decode()).items()})
            environ["wsgi.input"] = io.BytesIO(body)
        if path in made.redirected and environ["QUERY_STRING"] != "again":
            start_response("302 Found", [("Location", made.redirected[path])])
            return []
        if replace is None:
            return real(environ, start_response)
        kept: list[Any] = []
        body = b"".join(real(environ, lambda *given: kept.append(given)))
        status, headers = kept[0][:2]
        start_response(status, [pair for pair in headers if pair[0].lower() != "content-length"])
        return replace(body)

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()

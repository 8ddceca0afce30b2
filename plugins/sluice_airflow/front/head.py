"""What the front knows of a request before its body: method, address, headers, and who sent it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sluice_airflow.front.refused import BAD, HEAD_TOO_LARGE, NOT_ALLOWED, RequestRefused

#: Of the request line and all headers together, and how many headers.
HEAD_BYTES, HEADERS = 32 << 10, 100

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Headers that may come only once: of two, the guard and Airflow might read different ones.
SINGLE = frozenset(
    {
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "origin",
        "sec-fetch-dest",
        "sec-fetch-mode",
        "sec-fetch-site",
        "transfer-encoding",
    }
)


@dataclass(frozen=True)
class RequestHead:
    """A request without its body.

    path: decoded, without the root path of Airflow's address. secure: whether the browser speaks TLS.
    """

    method: str
    path: str
    query: str
    scheme: str
    secure: bool
    own: str
    peer: tuple[object, ...] | None
    headers: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, scope: Any, own: str) -> RequestHead:
        """Raises RequestRefused for a request that cannot be understood in one way."""
        size = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope["query_string"])
        if size + len(scope["path"]) > HEAD_BYTES or len(scope["headers"]) > HEADERS:
            said = f"the request has over {HEADERS} headers, or over {HEAD_BYTES} bytes of them: send fewer"
            raise RequestRefused(HEAD_TOO_LARGE, said)
        headers: dict[str, str] = {}
        for raw_name, raw in scope["headers"]:
            name, value = raw_name.decode("latin-1").lower(), raw.decode("latin-1")
            if name in headers and name in SINGLE:
                raise RequestRefused(BAD, f"the header {name} is given twice: give it once")
            headers[name] = f"{headers[name]}; {value}" if name in headers else value
        path, query = scope["path"], scope["query_string"].decode("latin-1")
        if scope["method"] not in METHODS:
            allowed = [(b"allow", ", ".join(sorted(METHODS)).encode())]
            raise RequestRefused(NOT_ALLOWED, "this method is not served here", headers=allowed)
        if "\0" in path or "%00" in query:
            raise RequestRefused(BAD, "the address holds a NUL, which no name here has: leave it out")
        if not path.startswith("/"):
            raise RequestRefused(BAD, "the address must begin with a slash")
        if "transfer-encoding" in headers and "content-length" in headers:
            raise RequestRefused(
                BAD, "a body has either a Content-Length or a Transfer-Encoding: leave one out"
            )
        root = scope.get("root_path", "")
        path = path.removeprefix(root) if root and path.startswith(f"{root}/") else path
        scheme = scope.get("scheme", "http")
        secure = scheme == "https" or own.startswith("https:")
        return cls(scope["method"], path, query, scheme, secure, own, scope.get("client"), headers)

    @property
    def address(self) -> str:
        """Path and query, to come back to."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def from_browser(self) -> bool:
        """Whether a browser sent it: it says so of every request to a page's server that changes anything."""
        return "origin" in self.headers or "sec-fetch-site" in self.headers

    @property
    def wants_page(self) -> bool:
        """Whether a person is to see the answer, as a page."""
        navigates = self.headers.get("sec-fetch-mode") == "navigate"
        return navigates or "text/html" in self.headers.get("accept", "")

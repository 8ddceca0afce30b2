"""A thin HDFS store over WebHDFS: whole files in and out, and renames that claim a name.

Every call is retried with bounded back-off for `patience` seconds while the NameNode or a DataNode is away,
restarts or is in safe mode. Then `HdfsUnavailable` is raised, and the caller decides how long its own work
can wait. Source: the contract's "HDFS raw"; WebHDFS REST API of Hadoop 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from sluice.runtime.backoff import patient
from sluice.runtime.settings import Settings

PREFIX = "/webhdfs/v1"
FIRST_DELAY_SECONDS = 0.1
MAX_DELAY_SECONDS = 2.0
CONNECT_SECONDS = 3.0
READ_SECONDS = 60.0
HTTP_ERROR = 400
#: Connections that are kept for each daemon; threads beyond that open their own.
CONNECTIONS = 16
#: A gateway may send a client to another address. All other trouble is for `HdfsStore._call`.
_REDIRECTS = urllib3.Retry(total=None, connect=0, read=0, status=0, other=0, redirect=5)

# Errors that no retry can fix. All others (SafeModeException, RetriableException, StandbyException, the plain
# IOException of a write that finds no DataNode, ...) go away when the daemon is back.
PERMANENT = frozenset(
    {
        "AccessControlException",
        "FileAlreadyExistsException",
        "IllegalArgumentException",
        "InvalidPathException",
        "ParentNotDirectoryException",
        "PathIsNotEmptyDirectoryException",
        "SecurityException",
        "UnsupportedOperationException",
    }
)

T = TypeVar("T")


class HdfsError(RuntimeError):
    """HDFS refused the request, and would refuse it again."""


class HdfsFileNotFound(HdfsError):
    """There is no such file."""


class HdfsUnavailable(RuntimeError):
    """HDFS did not answer within the store's patience."""


class _Transient(Exception):  # never leaves this module
    """An attempt that may succeed later."""


#: Errors that may go away: no answer, an answer that is cut short, or one that says that it is temporary.
_PASSING = (_Transient, HTTPError, ValueError)


@dataclass(frozen=True)
class HdfsFile:
    """One entry of a listing: `modified` in ms since the epoch, `length` in bytes."""

    name: str
    length: int
    modified: int
    directory: bool


class HdfsStore:
    """Files of one HDFS, addressed by absolute paths. May be shared between threads."""

    def __init__(self, urls: str, user: str, *, patience: float = 20.0) -> None:
        """`urls`: the WebHDFS addresses of the NameNodes, separated by commas.

        The active one is found by trying.
        """
        self._urls = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]
        self._user = user
        self._patience = patience
        # A small file takes two requests, and `requests` needs three times the CPU time for them. A pool
        # knows of no proxy, and one that is set for the outside world is not the way to the cluster.
        self._pool = urllib3.PoolManager(
            maxsize=CONNECTIONS,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            headers={"content-type": "application/octet-stream"},
        )

    @classmethod
    def of(cls, settings: Settings, *, patience: float = 20.0) -> HdfsStore:
        return cls(settings.hdfs.webhdfs, settings.hdfs.user, patience=patience)

    def list(self, path: str) -> list[HdfsFile]:
        """The directory's entries by name; empty if there is no such directory.

        They are read page by page, so that a directory of 100,000 files is no burden on the NameNode.
        """
        try:
            return list(self._list(path))
        except HdfsFileNotFound:
            return []

    def _list(self, path: str) -> Iterator[HdfsFile]:
        after = ""
        while True:
            answer = self._json("GET", path, op="LISTSTATUS_BATCH", startAfter=after)["DirectoryListing"]
            page = answer["partialListing"]["FileStatuses"]["FileStatus"]
            yield from map(_entry, page)
            if not page or not answer["remainingEntries"]:
                return
            after = page[-1]["pathSuffix"]

    def status(self, path: str) -> HdfsFile | None:
        """The file's length and time, or None if there is no such file."""
        try:
            return _entry(self._json("GET", path, op="GETFILESTATUS")["FileStatus"])
        except HdfsFileNotFound:
            return None

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `offset` on; without a length, all bytes to the end.

        If a DataNode fails, another one that has the block is asked.
        """
        params: dict[str, Any] = {"op": "OPEN", "offset": offset}
        if length is not None:
            params["length"] = length
        failed: list[str] = []  # DataNodes

        def attempt() -> bytes:
            avoiding = {"excludedatanodes": ",".join(failed)} if failed else {}
            failed_before, failed[:] = failed[:], []  # if no other has the block, ask them all again
            to = self._send("GET", path, {**params, **avoiding}, redirect=False)
            if "Location" not in to.headers:  # a gateway (HttpFS) sends the bytes itself
                return to.data
            try:
                return self._raw("GET", to.headers["Location"], path).data
            except (_Transient, HTTPError):
                failed[:] = [*failed_before, str(urlsplit(to.headers["Location"]).hostname)]
                raise

        return self._call(f"read {path}", attempt)

    def tail(self, path: str, length: int) -> bytes:
        """The last `length` bytes of a closed file, or all of a shorter one."""
        status = self.status(path)
        if status is None:
            raise HdfsFileNotFound(f"{path}: no such file in HDFS")
        start = max(0, status.length - length)
        return self.read(path, start, status.length - start)

    def write(self, path: str, data: bytes) -> None:
        """Write the whole file, replacing one of that name.

        Returns once the file is closed at its full length. Write to a temporary name of the caller's own so
        that no reader sees half of the file.
        """
        self._create(path, lambda to: self._raw("PUT", to, path, body=data), len(data))

    def upload(self, path: str, source: Path) -> None:
        """Write a file of this machine as `write` does, without having all of it in memory."""

        length = source.stat().st_size

        def send(to: str) -> None:
            with source.open("rb") as body:
                self._raw("PUT", to, path, body=body, length=length)

        self._create(path, send, length)

    def _create(self, path: str, send: Callable[[str], object], length: int) -> None:
        def attempt() -> None:
            to = self._send("PUT", path, {"op": "CREATE", "overwrite": "true"}, redirect=False)
            send(to.headers["Location"])

        self._call(f"write {path}", attempt)
        status = self.status(path)
        if status is None or status.length != length:
            raise HdfsUnavailable(
                f"{path}: {status.length if status else 0} of {length} bytes arrived in HDFS; write it again"
            )

    def rename(self, source: str, target: str) -> bool:
        """Rename without overwriting. HDFS refuses with ``{"boolean": false}``, not with an error.

        False means that this attempt did not rename the file. The target may exist, the source may not, or an
        earlier attempt whose answer was lost may have succeeded; the caller must look at what the target is.
        """
        return bool(self._json("PUT", source, op="RENAME", destination=target)["boolean"])

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete the file or directory; False if nothing was there."""
        return bool(self._json("DELETE", path, op="DELETE", recursive=str(recursive).lower())["boolean"])

    def make_directory(self, path: str) -> None:
        """Make the directory and its parents; one that exists is fine."""
        self._json("PUT", path, op="MKDIRS")

    def _json(self, method: str, path: str, **params: Any) -> Any:
        def attempt() -> Any:
            return self._send(method, path, params).json()

        return self._call(f"{params['op'].lower()} {path}", attempt)

    def _call(self, what: str, attempt: Callable[[], T]) -> T:
        again = patient(
            self._patience,
            lambda error: isinstance(error, _PASSING),
            first=FIRST_DELAY_SECONDS,
            longest=MAX_DELAY_SECONDS,
        )
        try:
            return again(attempt)
        except _PASSING as error:
            raise HdfsUnavailable(
                f"HDFS at {', '.join(self._urls)}: {what} failed for {self._patience:g} s: {error}. "
                "Check the NameNode and the DataNodes (sluice status)."
            ) from error

    def _send(
        self, method: str, path: str, params: dict[str, Any], *, redirect: bool = True
    ) -> urllib3.BaseHTTPResponse:
        """Ask the NameNode that answered last, or the others if it is away or in standby."""
        query = urlencode({**params, "user.name": self._user})
        problem: Exception = _Transient("no NameNode is configured (hdfs.webhdfs)")
        for _ in self._urls:
            url = f"{self._urls[0]}{PREFIX}{quote(path)}?{query}"
            try:
                return self._raw(method, url, path, redirect=redirect)
            except (_Transient, HTTPError) as error:
                problem = error
                self._urls = [*self._urls[1:], self._urls[0]]
        raise problem

    def _raw(
        self,
        method: str,
        url: str,
        path: str,
        *,
        redirect: bool = True,
        body: bytes | BinaryIO | None = None,
        length: int | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """length: of a body that is a file, which would come in chunks otherwise."""
        more = {} if length is None else {"headers": {**self._pool.headers, "content-length": str(length)}}
        response = self._pool.urlopen(method, url, redirect=redirect, body=body, retries=_REDIRECTS, **more)
        if response.status >= HTTP_ERROR:
            raise _problem(path, response)
        return response


def _entry(status: dict[str, Any]) -> HdfsFile:
    return HdfsFile(
        name=status["pathSuffix"],
        length=int(status["length"]),
        modified=int(status["modificationTime"]),
        directory=status["type"] == "DIRECTORY",
    )


def _problem(path: str, response: urllib3.BaseHTTPResponse) -> Exception:
    try:
        remote = response.json()["RemoteException"]
        name, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        said = response.data[:200].decode(errors="replace")
        return _Transient(f"HTTP {response.status}: {said}")
    first_line = message.splitlines()[0] if message else ""
    if name == "FileNotFoundException":
        return HdfsFileNotFound(f"{path}: no such file in HDFS")
    if name in PERMANENT:
        return HdfsError(f"{path}: HDFS refused: {name}: {first_line}")
    return _Transient(f"{name}: {first_line}")

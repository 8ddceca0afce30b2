from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sluice.runtime.settings import Settings
from sluice.storage import hdfs
from sluice.storage.hdfs import HdfsError, HdfsFileNotFound, HdfsStore, HdfsUnavailable


class TroubledNameNode:
    """A NameNode that answers requests with its troubles, one each, then with empty listings.

    A trouble is an exception's name, or "hangs up" for a connection that ends without an answer.
    """

    def __init__(self, *troubles: str) -> None:
        self.troubles, self.asked = list(troubles), 0
        namenode = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                namenode.asked += 1
                trouble = namenode.troubles.pop(0) if namenode.troubles else None
                if trouble == "hangs up":
                    self.close_connection = True
                    return
                nothing = {"partialListing": {"FileStatuses": {"FileStatus": []}}, "remainingEntries": 0}
                body: dict[str, Any] = {"DirectoryListing": nothing}
                if trouble:
                    body = {"RemoteException": {"exception": trouble, "message": f"{trouble} it is"}}
                data = json.dumps(body).encode()
                self.send_response(403 if trouble else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> TroubledNameNode:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon."""
    monkeypatch.setattr(hdfs, "FIRST_DELAY_SECONDS", 0.01)


@pytest.mark.usefixtures("hurried")
def test_a_trouble_that_passes_is_tried_again() -> None:
    with TroubledNameNode("SafeModeException", "hangs up", "RetriableException") as namenode:
        assert HdfsStore(namenode.url, "sluice").list("/x") == []
        assert namenode.asked == 4


def test_an_error_that_no_retry_fixes_is_raised_at_once() -> None:
    with TroubledNameNode("AccessControlException") as namenode:
        with pytest.raises(HdfsError, match="/x: HDFS refused: AccessControlException"):
            HdfsStore(namenode.url, "sluice").list("/x")
        assert namenode.asked == 1


def test_patience_ends_with_the_address_and_the_reason() -> None:
    with TroubledNameNode(*["SafeModeException"] * 50) as namenode:
        store = HdfsStore(namenode.url, "sluice", patience=0.5)
        with pytest.raises(HdfsUnavailable, match=r"127\.0\.0\.1.*SafeModeException it is.*sluice status"):
            store.list("/x")


def test_the_active_namenode_is_found_by_trying() -> None:
    with TroubledNameNode(*["StandbyException"] * 3) as standby, TroubledNameNode() as active:
        store = HdfsStore(f"{standby.url},{active.url}", "sluice")
        assert store.list("/x") == []
        assert store.list("/x") == []
        assert (standby.asked, active.asked) == (1, 2)


def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(HdfsUnavailable, match=r"failed for 0\.1 s"):
        HdfsStore("http://127.0.0.1:9", "sluice", patience=0.1).status("/x")


class NameNodeWithOneBadDataNode:
    """A NameNode that sends readers to the first DataNode that they do not exclude.

    The first of its DataNodes cuts its answers short; the second is whole, or there is none.
    """

    def __init__(self, data: bytes, *, whole: bool) -> None:
        self.excluded: list[str] = []
        self.cut_answers_left = 1_000_000 if whole else 2
        namenode = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                if self.path.startswith("/webhdfs"):
                    excluded = query.get("excludedatanodes", [""])[0]
                    namenode.excluded.append(excluded)
                    if excluded and not whole:
                        body = {"RemoteException": {"exception": "IOException", "message": "no active nodes"}}
                        self.answer(403, json.dumps(body).encode())
                        return
                    host = "127.0.0.1" if excluded else "localhost"
                    self.send_response(307)
                    self.send_header("Location", f"http://{host}:{self.server.server_port}/")  # type: ignore[attr-defined]
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                bad = (self.headers["Host"] or "").startswith("localhost") and namenode.cut_answers_left > 0
                namenode.cut_answers_left -= bad
                self.answer(200, data, len(data) // 2 if bad else len(data))

            def answer(self, status: int, body: bytes, sent: int | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:sent])
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> NameNodeWithOneBadDataNode:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_read_goes_on_at_another_datanode() -> None:
    with NameNodeWithOneBadDataNode(b"0123456789", whole=True) as namenode:
        assert HdfsStore(namenode.url, "sluice").read("/x") == b"0123456789"
        assert namenode.excluded == ["", "localhost"]


@pytest.mark.usefixtures("hurried")
def test_a_read_asks_the_only_datanode_until_it_answers() -> None:
    with NameNodeWithOneBadDataNode(b"0123456789", whole=False) as namenode:
        assert HdfsStore(namenode.url, "sluice").read("/x") == b"0123456789"
        assert namenode.excluded == ["", "localhost", "", "localhost", ""]


class DataNodeThatHangsUp:
    """A NameNode and DataNode in one, which hangs up on the first upload before it is whole."""

    def __init__(self) -> None:
        self.uploads: list[tuple[dict[str, str], bytes]] = []
        self.hangs_up = True
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                if self.path.startswith("/webhdfs"):
                    self.answer(307, Location=f"http://127.0.0.1:{self.server.server_port}/data")  # type: ignore[attr-defined]
                    return
                if node.hangs_up:
                    node.hangs_up, self.close_connection = False, True
                    return
                data = self.rfile.read(int(self.headers["Content-Length"]))
                node.uploads.append((dict(self.headers), data))
                self.answer(201)

            def do_GET(self) -> None:
                length = len(node.uploads[-1][1])
                status = {"pathSuffix": "", "length": length, "modificationTime": 0, "type": "FILE"}
                self.answer(200, json.dumps({"FileStatus": status}).encode())

            def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> DataNodeThatHangsUp:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("data", [b"", b"0123456789" * 100_000])
def test_a_file_is_uploaded_from_its_beginning_again(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with DataNodeThatHangsUp() as node:
        HdfsStore(node.url, "sluice").upload("/x", tmp_path / "file")
    ((headers, sent),) = node.uploads
    assert sent == data
    assert headers["content-length"] == str(len(data))
    assert "transfer-encoding" not in {name.lower() for name in headers}


@pytest.fixture
def directory(stack: Settings) -> Iterator[str]:
    path = f"/sluice/tmp/h4-{secrets.token_hex(4)}"
    yield path
    HdfsStore.of(stack).delete(path, recursive=True)


@pytest.mark.stack
def test_files_are_written_read_and_listed(stack: Settings, directory: str, tmp_path: Path) -> None:
    store = HdfsStore.of(stack)
    assert store.list(directory) == []
    assert store.status(f"{directory}/a b") is None
    store.write(f"{directory}/a b", b"0123456789")
    store.write(f"{directory}/empty", b"")
    store.make_directory(f"{directory}/sub")
    assert [(f.name, f.length, f.directory) for f in store.list(directory)] == [
        ("a b", 10, False),
        ("empty", 0, False),
        ("sub", 0, True),
    ]
    assert store.read(f"{directory}/a b") == b"0123456789"
    assert store.read(f"{directory}/a b", 3, 4) == b"3456"
    assert store.tail(f"{directory}/a b", 3) == b"789"
    assert store.tail(f"{directory}/a b", 30) == b"0123456789"
    store.write(f"{directory}/a b", b"another")
    assert store.read(f"{directory}/a b") == b"another"
    (tmp_path / "file").write_bytes(b"0123456789" * 1_000_000)
    store.upload(f"{directory}/a b", tmp_path / "file")
    assert store.read(f"{directory}/a b") == b"0123456789" * 1_000_000
    with pytest.raises(HdfsFileNotFound, match="no such file"):
        store.read(f"{directory}/none")


@pytest.mark.stack
def test_a_rename_claims_a_name_once(stack: Settings, directory: str) -> None:
    store = HdfsStore.of(stack)
    for name in ("one", "two"):
        store.write(f"{directory}/{name}", name.encode())
    assert store.rename(f"{directory}/one", f"{directory}/claimed")
    assert not store.rename(f"{directory}/two", f"{directory}/claimed")
    assert store.read(f"{directory}/claimed") == b"one"
    assert store.read(f"{directory}/two") == b"two"
    assert not store.rename(f"{directory}/one", f"{directory}/elsewhere")


@pytest.mark.stack
def test_deleting_says_whether_anything_was_there(stack: Settings, directory: str) -> None:
    store = HdfsStore.of(stack)
    store.write(f"{directory}/one", b"1")
    assert store.delete(f"{directory}/one")
    assert not store.delete(f"{directory}/one")
    store.write(f"{directory}/one", b"1")
    assert store.delete(directory, recursive=True)
    assert store.list(directory) == []

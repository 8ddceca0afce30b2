"""Reads in places and threads of their own, behind a real server: slow, leaving and failing readers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sluice_lab.waiting import SECONDS, until
from tests.plugins.served import served

PIECE = b"x" * 100_000


@dataclass
class Source:
    """Pieces without end, or that fail; it notes how far it was read and whether it was closed."""

    fails_after: int = 1 << 30
    go_on: threading.Event | None = None
    given: int = 0
    closed: bool = False
    threads: set[str] = field(default_factory=set)

    def pieces(self) -> Generator[bytes]:
        try:
            while self.given < self.fails_after:
                if self.go_on:
                    self.go_on.wait()
                self.threads.add(threading.current_thread().name)
                self.given += 1
                yield PIECE
            raise RuntimeError("the store went away")
        finally:
            self.closed = True


@contextmanager
def reading(source: Source, places: int = 1, stall: float = 30.0) -> Iterator[str]:
    """A server whose answers are pieces of the source."""
    from airflow.api_fastapi.core_api.app import init_middlewares

    from sluice_airflow.api.reads import Reads, Streamed, TooManyReaders
    from sluice_airflow.auth import AuthManager

    reads = Reads(threads=2, places=places, waiting=1, patience=0.3)

    async def stream(request: Request) -> Response:
        try:
            place = await reads.place()
        except TooManyReaders:
            return PlainTextResponse("busy", 503)
        return Streamed([b"held"], source.pieces(), place, {"Content-Type": "text/csv"}, stall)

    async def quick(request: Request) -> Response:
        return PlainTextResponse("quick")

    app = FastAPI(routes=[Route("/stream", stream), Route("/quick", quick)])
    with patch("airflow.api_fastapi.app.get_auth_manager", AuthManager):
        init_middlewares(app)  # as they are around the API in Airflow
    with served(app) as address:
        yield address


def opened(address: str) -> AbstractContextManager[httpx.Response]:
    headers = {"accept-encoding": "identity"}
    return httpx.stream("GET", f"{address}/stream", timeout=SECONDS, headers=headers)


def test_a_reader_that_leaves_gives_its_place_back() -> None:
    source = Source()
    with reading(source) as address:
        for _ in range(3):
            source.closed = False
            with opened(address) as answer:
                assert next(answer.iter_bytes(len(PIECE))).startswith(b"heldxxx")
            until(lambda: source.closed)
        assert all(name.startswith("results") for name in source.threads)


@pytest.mark.slow
def test_a_slow_step_holds_up_nobody_else() -> None:
    go_on = threading.Event()
    with reading(Source(go_on=go_on)) as address, opened(address) as answer:
        try:
            assert next(answer.iter_bytes(4)) == b"held"
            assert httpx.get(f"{address}/quick", timeout=SECONDS).text == "quick"
            assert httpx.get(f"{address}/stream", timeout=SECONDS).status_code == 503
        finally:
            go_on.set()


@pytest.mark.slow
def test_a_reader_that_takes_nothing_is_left() -> None:
    source = Source()
    with reading(source, stall=0.5) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as idle:
            idle.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: source.closed)
            assert source.given < 1_000  # what the sockets hold, and no more
        with opened(address) as answer:
            assert answer.status_code == 200


@pytest.mark.slow
def test_an_answer_that_fails_half_way_does_not_look_whole() -> None:
    source = Source(fails_after=3)
    with reading(source) as address:
        for encoding in ("identity", "gzip"):
            source.given = 0
            with pytest.raises(httpx.RemoteProtocolError):
                httpx.get(f"{address}/stream", timeout=SECONDS, headers={"accept-encoding": encoding})
        until(lambda: source.closed)
        assert httpx.get(f"{address}/quick", timeout=SECONDS).text == "quick"

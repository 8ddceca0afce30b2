"""One SSH connection to each host, shared by everything that this process does there.

asyncssh runs in a thread with a loop of its own; callers in any thread wait for its answers. A host that does
not answer is left alone for a while, each time for longer, so that one host that is away does not hold up the
watch over the others.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TypeVar

import asyncssh

from sluice.collection.errors import AgentError, HostUnreachable
from sluice.collection.metrics import MetricsUnreachable
from sluice_hosts.links.ssh_files import refused, replace, switch, write
from sluice_hosts.links.ssh_files import session as sftp_session
from sluice_hosts.links.ssh_loop import wait

CONNECT_SECONDS = 10.0
GREETING_SECONDS, _GREETING = 3.0, b"SSH-"
COMMAND_SECONDS = 20.0
COPY_SECONDS = 120.0  # a copy that takes longer goes on at the next try
READ_SECONDS = 600.0
AWAY_SECONDS = 10.0  # how long a host that did not answer is not asked again; twice as long each further time
LONGEST_AWAY_SECONDS = 300.0
#: A silent server is probed every KEEPALIVE_SECONDS. The connection drops after KEEPALIVES unanswered probes,
#: and all that waits for it fails at once, after 8 s of silence. The SSH server itself answers the probes, so
#: a command may take as long as it needs.
KEEPALIVE_SECONDS, KEEPALIVES = 2.0, 3
_ANSWER_BYTES = 8 << 20
_ANSWER_SECONDS = 10.0
_CLOSED_PORT = 1  # where nothing listens: only whether the host would forward to it matters

# It tells of each command; a watch gives several a second.
asyncssh.set_log_level("WARNING")

Connection = asyncssh.SSHClientConnection
T = TypeVar("T")


class RemoteFailed(AgentError):
    """A host answered, and a command or a copy failed there."""


@dataclass(frozen=True)
class Target:
    """Where to log in, with which key, and which host key must be shown (a line as in known_hosts).

    private_key: the key itself, instead of a file.
    """

    name: str
    address: str
    port: int
    user: str
    key: Path
    host_key: str  # type and base64, e.g. "ssh-ed25519 AAAA..."
    private_key: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"host {self.name} ({self.user}@{self.address}:{self.port})"


class SshLink:
    """The connection to one host, made when it is needed and made again when it broke."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._away_until, self._away_seconds, self._why = 0.0, 0.0, ""

    def run(self, *command: str, seconds: float = COMMAND_SECONDS) -> str:
        """Run a command; returns what it printed. Raises HostUnreachable, RemoteFailed."""

        async def work(connection: Connection) -> str:
            done = await connection.run(shlex.join(command), stdin=asyncssh.DEVNULL, errors="replace")
            if done.exit_status is None:  # neither an exit nor a signal: the end was not seen
                raise asyncssh.ConnectionLost("the connection was lost")
            if done.exit_status != 0:
                said = _printable(str(done.stderr or done.stdout or "").strip()[-500:])
                what = f"exit status {done.exit_status}" if done.exit_signal is None else "killed"
                raise RemoteFailed(f"{self.target}: {' '.join(command)[:200]}: {said or what}")
            return str(done.stdout)

        return self._do(work, seconds)

    def copy(self, folder: PurePath, files: Mapping[str, Path | bytes]) -> None:
        """Write files, of mode 0600, below a folder; what an earlier copy has written is not sent again.

        The caller compares checksums afterwards. Raises HostUnreachable, RemoteFailed.
        """

        async def work(connection: Connection) -> None:
            async with sftp_session(connection) as sftp:
                try:
                    async with asyncio.timeout(COPY_SECONDS):
                        for each in sorted({folder / PurePath(name).parent for name in files}):
                            private = asyncssh.SFTPAttrs(permissions=0o700)
                            await sftp.makedirs(str(each), private, exist_ok=True)
                        for name, content in files.items():
                            data = content if isinstance(content, bytes) else content.read_bytes()
                            await write(sftp, str(folder / name), data)
                except TimeoutError as error:
                    raise RemoteFailed(
                        f"{self.target}: the copy to {folder} is not done after {COPY_SECONDS:g} s; it goes "
                        "on at the next try"
                    ) from error

        self._do(work, COPY_SECONDS + COMMAND_SECONDS)

    def replace(self, path: PurePath, data: bytes) -> None:
        """Replace a file of mode 0600 in one step."""
        self._files(lambda sftp: replace(sftp, path, data), COMMAND_SECONDS)

    def switch(self, link: PurePath, target: str) -> None:
        """Point a symbolic link to another target, in one step."""
        self._files(lambda sftp: switch(sftp, link, target), COMMAND_SECONDS)

    def read(
        self, path: PurePath, offset: int = 0, size: int = _ANSWER_BYTES, seconds: float = READ_SECONDS
    ) -> bytes | None:
        """Bytes of a file; None if there is no such file."""

        async def work(sftp: asyncssh.SFTPClient) -> bytes | None:
            try:
                async with sftp.open(str(path), "rb") as file:
                    data = await file.read(size, offset)
                    return data if isinstance(data, bytes) else data.encode()
            except asyncssh.SFTPNoSuchFile:
                return None

        return self._files(work, seconds)

    def sizes(self, folder: PurePath) -> dict[str, int] | None:
        """The files of a folder and their sizes; None if there is no such folder.

        Raises RemoteFailed if it cannot be read, because then it may hold files.
        """

        async def work(sftp: asyncssh.SFTPClient) -> dict[str, int] | None:
            try:
                entries = await sftp.readdir(str(folder))
            except asyncssh.SFTPNoSuchFile:
                return None
            except asyncssh.SFTPPermissionDenied as error:
                raise RemoteFailed(f"{self.target}: {folder} cannot be read: {error.reason}") from error
            return {str(each.filename): each.attrs.size or 0 for each in entries}

        return self._files(work, COMMAND_SECONDS)

    def refused(self, paths: Sequence[PurePath]) -> dict[PurePath, str]:
        """Those files that cannot be opened for reading, and why; one that is gone is none of them."""
        found = self._files(lambda sftp: refused(sftp, paths), COPY_SECONDS)
        return {path: _printable(why) for path, why in found.items()}

    def forwards(self) -> bool:
        """Whether the host lets this key reach ports of its own 127.0.0.1."""

        async def work(connection: Connection) -> bool:
            try:
                _, writer = await connection.open_connection("127.0.0.1", _CLOSED_PORT)
            except asyncssh.ChannelOpenError as error:
                if connection.is_closed():
                    raise
                return error.code != asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED
            writer.close()
            return True

        return self._do(work, COMMAND_SECONDS)

    def get(self, port: int, path: str) -> bytes:
        """The body of ``http://127.0.0.1:<port><path>`` as the host sees it. Raises MetricsUnreachable."""

        return self._do(lambda connection: _ask(connection, self.target, port, path), COMMAND_SECONDS)

    def close(self) -> None:
        """Close the connection; the next use makes another one."""
        wait(self._drop(), COMMAND_SECONDS)

    def _files(self, work: Callable[[asyncssh.SFTPClient], Awaitable[T]], seconds: float) -> T:
        async def with_session(connection: Connection) -> T:
            async with sftp_session(connection) as sftp:
                return await work(sftp)

        return self._do(with_session, seconds)

    def _do(self, work: Callable[[Connection], Awaitable[T]], seconds: float) -> T:
        try:
            return wait(self._with_connection(work, seconds), CONNECT_SECONDS + seconds + COMMAND_SECONDS)
        except TimeoutError as error:  # the loop has too much to do
            raise HostUnreachable(f"{self.target} was not asked in time") from error

    async def _with_connection(self, work: Callable[[Connection], Awaitable[T]], seconds: float) -> T:
        connection = None
        try:
            connection = await self._connected()
            async with asyncio.timeout(seconds):
                answer = await work(connection)
        except asyncssh.SFTPConnectionLost as error:
            raise await self._lost(error, connection) from error
        except asyncssh.SFTPError as error:
            raise RemoteFailed(f"{self.target}: {_printable(error.reason)}") from error
        except (MetricsUnreachable, RemoteFailed):
            raise
        except asyncssh.ChannelOpenError as error:
            if error.code == asyncssh.OPEN_CONNECT_FAILED:  # the connection was lost meanwhile
                raise await self._lost(error, connection) from error
            raise RemoteFailed(f"{self.target} refuses: {_printable(error.reason)}") from error
        # A ValueError: a key with a passphrase, say.
        except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
            raise await self._lost(error, connection) from error
        self._away_seconds, self._why = 0.0, ""
        return answer

    async def _connected(self) -> Connection:
        async with self._lock:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            if time.monotonic() < self._away_until:
                raise HostUnreachable(self._why)
            known = asyncssh.import_known_hosts(f"* {self.target.host_key}")
            given = self.target.private_key
            key = asyncssh.import_private_key(given) if given else str(self.target.key)
            failed = self._why or self._connection is not None
            if failed and not await _greets(self.target.address, self.target.port):
                raise asyncssh.ConnectionLost("nobody greets")
            async with asyncio.timeout(CONNECT_SECONDS):
                self._connection = await asyncssh.connect(
                    self.target.address,
                    self.target.port,
                    username=self.target.user,
                    client_keys=[key],
                    known_hosts=known,
                    agent_path=None,
                    config=[],
                    password=None,
                    preferred_auth="publickey",
                    keepalive_interval=KEEPALIVE_SECONDS,
                    keepalive_count_max=KEEPALIVES,
                )
            return self._connection

    async def _lost(self, error: Exception, connection: Connection | None) -> HostUnreachable:
        """Leave the host alone for a while. connection: the one that failed; None if there was none."""
        said = _printable(str(error) or type(error).__name__)
        if connection is not None and connection is not self._connection:
            # All that used the connection fails with it: that the host was silent counts once.
            return HostUnreachable(f"{self.target} does not answer: {said}")
        await self._drop()
        self._why = f"{self.target} does not answer: {said}"
        if isinstance(error, asyncssh.PermissionDenied):
            self._why = _refused(self.target, said)
        longer = max(AWAY_SECONDS, 2 * self._away_seconds)
        self._away_seconds = min(longer, LONGEST_AWAY_SECONDS)
        self._away_until = time.monotonic() + self._away_seconds
        return HostUnreachable(self._why)

    async def _drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


_guard = threading.Lock()
_links: dict[tuple[int, Target], SshLink] = {}  # by process, because a fork takes no threads along


def link(target: Target) -> SshLink:
    """The process's one link to that target."""
    with _guard:
        return _links.setdefault((os.getpid(), target), SshLink(target))


def host_key(address: str, port: int, algorithms: Sequence[str] = ()) -> tuple[str, str]:
    """The key that a host shows to anybody, as in known_hosts, and its fingerprint.

    algorithms: how it is to prove that it has the key, if it has several; any by default.
    """

    async def ask() -> asyncssh.SSHKey | None:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncssh.get_server_host_key(
                address, port, config=[], server_host_key_algs=tuple(algorithms)
            )

    try:
        key = wait(ask(), CONNECT_SECONDS + COMMAND_SECONDS)
    except (OSError, asyncssh.Error, TimeoutError) as error:
        said = str(error) or type(error).__name__
        raise HostUnreachable(f"{address}:{port} does not answer: {said}") from error
    if key is None:
        raise HostUnreachable(f"{address}:{port} shows no host key: is it an SSH server?")
    return key.export_public_key("openssh").decode().strip(), key.get_fingerprint()


def names(commands: Sequence[str]) -> str:
    """A shell test that fails with the names of those commands that are not there."""
    each = " ".join(shlex.quote(command) for command in commands)
    return f'for c in {each}; do command -v "$c" >/dev/null || missing="$missing $c"; done; echo "$missing"'


async def _ask(connection: Connection, target: Target, port: int, path: str) -> bytes:
    try:
        reader, writer = await connection.open_connection("127.0.0.1", port)
    except asyncssh.ChannelOpenError as error:
        if connection.is_closed():
            raise
        raise MetricsUnreachable(f"{target}: no answer at port {port}: {error.reason}") from error
    writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    answer = b""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            while len(answer) < _ANSWER_BYTES and (piece := await reader.read(_ANSWER_BYTES)):
                answer += piece
    except TimeoutError as error:  # a process that hangs, on a host that answers
        raise MetricsUnreachable(f"{target}: no answer at port {port}") from error
    finally:
        writer.close()
    return answer.partition(b"\r\n\r\n")[2]


def _refused(target: Target, said: str) -> str:
    return (
        f"{target} does not let this key in ({said}): put the line that `sluice hosts enrol {target.name}` "
        "prints into the account's ~/.ssh/authorized_keys"
    )


def greets(address: str, port: int) -> bool:
    """Whether an SSH server greets there. Raises OSError where nobody answers."""
    return wait(_greets(address, port), GREETING_SECONDS + COMMAND_SECONDS)


async def _greets(address: str, port: int) -> bool:
    # It is quick: a host that did not answer is not waited for longer.
    async with asyncio.timeout(GREETING_SECONDS):
        reader, writer = await asyncio.open_connection(address, port)
        try:
            return await reader.read(len(_GREETING)) == _GREETING
        finally:
            writer.close()


def _printable(text: str) -> str:
    """What a host says goes into logs, and into PostgreSQL, which takes no NUL."""
    return "".join(each if each.isprintable() else " " for each in text)

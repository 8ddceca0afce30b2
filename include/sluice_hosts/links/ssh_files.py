"""Files over SSH: a session whose names may be any bytes, and what is done with files in one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import PurePath

import asyncssh

PIECE = 256 << 10
_AT_ONCE = 16  # files that are opened


def session(connection: asyncssh.SSHClientConnection) -> AbstractAsyncContextManager[asyncssh.SFTPClient]:
    """A session whose names are as `os.fsdecode` shows them."""
    return connection.start_sftp_client(path_errors="surrogateescape")


async def write(sftp: asyncssh.SFTPClient, path: str, data: bytes) -> None:
    """Write a file of mode 0600, or go on with one. Its last piece is sent again: it may have holes."""
    try:
        there = (await sftp.stat(path)).size or 0
    except asyncssh.SFTPNoSuchFile:
        there = 0
    flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT
    private = asyncssh.SFTPAttrs(permissions=0o600)
    async with sftp.open(path, flags, private, encoding=None) as out:
        for at in range(max(0, there - 1) // PIECE * PIECE, len(data), PIECE):
            await out.write(data[at : at + PIECE], at)


async def refused(sftp: asyncssh.SFTPClient, paths: Sequence[PurePath]) -> dict[PurePath, str]:
    """Those files that cannot be opened for reading, and why; one that is gone is none of them."""
    found: dict[PurePath, str] = {}
    few = asyncio.Semaphore(_AT_ONCE)

    async def look(path: PurePath) -> None:
        try:
            async with few, sftp.open(str(path), "rb"):
                pass
        except asyncssh.SFTPNoSuchFile:
            pass
        except (asyncssh.SFTPPermissionDenied, asyncssh.SFTPFailure) as error:
            found[path] = error.reason

    await asyncio.gather(*map(look, paths))
    return {path: found[path] for path in paths if path in found}


async def replace(sftp: asyncssh.SFTPClient, path: PurePath, data: bytes) -> None:
    """Replace a file in one step. Its folder is made if it is not there."""
    await sftp.makedirs(str(path.parent), asyncssh.SFTPAttrs(permissions=0o700), exist_ok=True)
    new = str(path.with_name(f".{path.name}.new"))
    with suppress(asyncssh.SFTPNoSuchFile):
        await sftp.remove(new)
    await write(sftp, new, data)
    await sftp.posix_rename(new, str(path))


async def switch(sftp: asyncssh.SFTPClient, link: PurePath, target: str) -> None:
    """Point a symbolic link to another target, in one step."""
    temporary = f"{link}.new"
    if await sftp.lexists(temporary):
        await sftp.remove(temporary)
    await sftp.symlink(target, temporary)
    await sftp.posix_rename(temporary, str(link))

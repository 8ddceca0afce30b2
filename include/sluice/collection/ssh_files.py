"""Files over SSH: a session whose names may be any bytes, a copy that goes on, and one that replaces."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, suppress
from pathlib import PurePath

import asyncssh

PIECE = 256 << 10


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


async def replace(sftp: asyncssh.SFTPClient, path: PurePath, data: bytes) -> None:
    """Replace a file in one step. Its folder is made if it is not there."""
    await sftp.makedirs(str(path.parent), asyncssh.SFTPAttrs(permissions=0o700), exist_ok=True)
    new = str(path.with_name(f".{path.name}.new"))
    with suppress(asyncssh.SFTPNoSuchFile):
        await sftp.remove(new)
    await write(sftp, new, data)
    await sftp.posix_rename(new, str(path))

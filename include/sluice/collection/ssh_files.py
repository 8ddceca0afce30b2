"""Files over SSH: a session whose names may be any bytes, and a copy that goes on where it stopped."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

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

"""Network namespaces: a loopback interface that only the processes inside can reach.

Ports, and even 127.0.0.1, belong to a namespace. What listens inside cannot be reached from outside, not even
by other users of the same machine. To enter one takes the rights of the user who made it (see
namespaces(7) and user_namespaces(7)); root needs no user namespace, anybody else makes one along with it.

Linux only. Both `create` and `join` want a process that has not started a thread yet: the kernel does not
let one thread of several change its user namespace. Run as a program, this file exits with 0 if a namespace
can be made; any Python can run it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    #: Open files of a user namespace and of a network namespace in it. They keep both alive.
    Handles = tuple[int, int]

CLONE_NEWUSER, CLONE_NEWNET = KINDS = 0x1000_0000, 0x4000_0000
SIOCSIFFLAGS, IFF_UP_RUNNING = 0x8914, 0x41
COMMAND_BYTES = 1 << 16
ELSEWHERE = "cannot be reached from the network that this process is in: use another terminal"
INTERFACE = "16sh14x"  # struct ifreq: a name and flags

_libc = ctypes.CDLL(None, use_errno=True)


class NoNamespace(RuntimeError):
    """The kernel refuses to make or to enter a network namespace."""


def create() -> None:
    """Put this process into a new network namespace, whose loopback interface works. Raises NoNamespace."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _call("unshare", CLONE_NEWNET)
    else:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
        # Everybody keeps the number that they have outside, so files have the same owners.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack(INTERFACE, b"lo", IFF_UP_RUNNING))


def join(handles: Handles) -> None:
    """Put this process into these namespaces, where it is not there yet. Raises NoNamespace."""
    for handle, name, kind in zip(handles, ("user", "net"), KINDS, strict=True):
        if not os.path.samestat(os.fstat(handle), os.stat(f"/proc/self/ns/{name}")):
            _call("setns", handle, kind)


@contextlib.contextmanager
def of_process(pid: int, argument: str = "") -> Iterator[Handles | None]:
    """The namespaces of the process, for the block.

    None if there is no such process of this very user, or if ``argument`` is in none of its arguments.
    Another user's process could lead this one into a network where that user listens. And a pid may be
    reused: all is read through one directory of /proc, which belongs to one process for ever. Raises
    NoNamespace if this process may not look there.
    """
    with contextlib.ExitStack() as stack:
        try:
            process = _opened(stack, f"/proc/{pid}", os.O_DIRECTORY)
            command = os.read(_opened(stack, "cmdline", directory=process), COMMAND_BYTES)
            ours = os.fstat(process).st_uid == os.geteuid() and argument.encode() in command
            handles = _handles(stack, process) if ours else None
        except PermissionError as error:
            raise NoNamespace(f"process {pid} {ELSEWHERE}") from error
        except OSError:
            handles = None
        yield handles


def here(handles: Handles) -> bool:
    """Whether this process is in that network."""
    return os.path.samestat(os.fstat(handles[1]), os.stat("/proc/self/ns/net"))


def possible() -> bool:
    """Whether this user may make a network namespace here."""
    return subprocess.run([sys.executable, __file__], capture_output=True, check=False).returncode == 0


def _opened(
    stack: contextlib.ExitStack, path: str, flags: int = os.O_RDONLY, directory: int | None = None
) -> int:
    handle = os.open(path, flags | os.O_CLOEXEC, dir_fd=directory)
    stack.callback(os.close, handle)
    return handle


def _handles(stack: contextlib.ExitStack, process: int) -> Handles:
    user, net = (_opened(stack, f"ns/{name}", directory=process) for name in ("user", "net"))
    return user, net


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments) == 0:
        return
    number = ctypes.get_errno()
    if number == errno.EINVAL and len(os.listdir("/proc/self/task")) > 1:
        raise NoNamespace("this process has threads already: start it with `sluice exec -- ...`")
    if number == errno.EPERM and name == "setns":
        raise NoNamespace(f"the network {ELSEWHERE}")
    raise NoNamespace(f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    create()

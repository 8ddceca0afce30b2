"""Where a connection to a door comes from: the user of this machine who made it, or another machine.

Limits go by source, so that one stranger uses up his own share of a door and nobody else's.
"""

from __future__ import annotations

import errno
import functools
import ipaddress
import socket
import struct

from sluice.runtime.settings import LOOPBACK

#: See sock_diag(7). A request for one socket by its two ends, and the answer to it.
SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 4, 20, 1, 2
HEADER, REQUEST, ENDS = struct.Struct("=IHHII"), struct.Struct("=BBBxI"), struct.Struct("!HH16s16s")
ANY_COOKIE = b"\0" * 4 + b"\xff" * 8  # any interface, any cookie
ALL_STATES = 0xFFFF_FFFF
UID_AND_INODE = struct.Struct("=II")
UID_AT = 4 + ENDS.size + len(ANY_COOKIE) + 12
ANSWER_BYTES = 4096


def source_of(peer: tuple[object, ...], own_port: int) -> str:
    """Who is at the other end of a connection to `own_port` at a loopback address, or at any other address.

    peer: the other end's address and port, as `socket.accept` gives them. Returns `uid:1000` for a process
    of this machine, else the address, or the network of an IPv6 address (/64), which one host can have whole.
    A process that has closed its end already cannot be told from others: it is `127.0.0.1`, or `::1/128`.
    """
    address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_loopback:
        uid = _uid(address, int(str(peer[1])), own_port)
        if uid is not None:
            return f"uid:{uid}"
    if isinstance(address, ipaddress.IPv4Address):
        return LOOPBACK if address.is_loopback else str(address)
    return str(ipaddress.ip_network((address, 128 if address.is_loopback else 64), strict=False))


def look_from_here() -> None:
    """Ask about the connections of the network in which this process is now, also after it enters another."""
    _kernel()


@functools.cache
def _kernel() -> socket.socket:
    """A netlink socket stays in the network in which it was made. It needs no rights."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, SOCK_DIAG)


def _uid(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, own_port: int) -> int | None:
    """The user of the socket at this address; None if it is closed, or the kernel does not say.

    The kernel finds one socket by its ends, however many a stranger has opened; /proc/net/tcp lists all.
    """
    old = isinstance(address, ipaddress.IPv4Address)
    family, own = (socket.AF_INET, LOOPBACK) if old else (socket.AF_INET6, "::1")
    ends = ENDS.pack(port, own_port, address.packed, socket.inet_pton(family, own))
    body = REQUEST.pack(family, socket.IPPROTO_TCP, 0, ALL_STATES) + ends + ANY_COOKIE
    asked = HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + body
    try:
        kernel = _kernel()
        kernel.send(asked)
        answer = kernel.recv(ANSWER_BYTES)
    except OSError as error:
        if error.errno in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES):
            return None
        raise
    if HEADER.unpack_from(answer)[1] == NLMSG_ERROR:  # there is no such socket, or the kernel cannot look
        return None
    found = answer[HEADER.size :]
    if found[4 : 4 + ENDS.size] != ends:  # a socket that listens there
        return None
    uid, inode = UID_AND_INODE.unpack_from(found, UID_AT)
    return int(uid) if inode else None  # a closed socket belongs to nobody: its user is given as 0

"""The fields of an access log's lines, found in one loop over the bytes (numba).

It finds what the regular expressions of `engine.access_log` find. They never go back in a line: a field ends
at the first byte that it cannot have. Bytes are as good as characters here, because
every byte that ends a field is ASCII. Import this module inside the function that needs it.
"""
# ruff: noqa: PLR0912, PLR0917, PLR2004 - a kernel is one loop over arrays that its caller made

from __future__ import annotations

import numpy as np

from sluice.engine.kernels.words import first_byte, matches, word
from sluice.runtime.arrays import Bytes, Int32s
from sluice.runtime.compiled import compiled, inlined

#: The rows of `begins` and `lengths`.
FIELDS = (
    "client",
    "ident",
    "user",
    "time",
    "method",
    "path",
    "protocol",
    "status",
    "bytes",
    "referer",
    "agent",
)
_NOTHING = -1


@inlined
def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@inlined
def _is_space(byte: int) -> bool:
    r"""Whether it is one of \s: space, tab, line feed, form feed, carriage return."""
    return byte == 32 or (9 <= byte <= 13 and byte != 11)


@inlined
def _word_end(data: Bytes, at: int, stop: int) -> int:
    """Where the run of bytes that are no space ends."""
    while at < stop and not _is_space(data[at]):
        at += 1
    return at


@inlined
def _find(data: Bytes, at: int, stop: int, byte: int) -> int:
    """The place of the first such byte; `stop` or beyond if there is none."""
    found = np.uint64(0)
    while found == 0 and at < stop:
        found = matches(word(data, at), byte)
        at += 8
    return at - 8 + first_byte(found) if found else stop


@inlined
def _closing(data: Bytes, at: int, stop: int) -> int:
    """The place of the first quote that no backslash takes away; `stop` or beyond if there is none."""
    while at < stop:
        some = word(data, at)
        found = matches(some, 34) | matches(some, 92)
        if found == 0:
            at += 8
            continue
        at += first_byte(found)
        if at >= stop or data[at] == 34:
            return at
        at += 2
    return stop


@inlined
def _protocol(data: Bytes, first: int, stop: int) -> int:
    """The place of the space before a request's protocol, at `first` or after; -1 if it names none."""
    at = stop - 1
    while at >= first and (_is_digit(data[at]) or data[at] == 46):
        at -= 1
    if at == stop - 1 or at < first or data[at] != 47:
        return _NOTHING
    slash = at
    at -= 1
    while at >= first and 65 <= data[at] <= 90:
        at -= 1
    if at == slash - 1 or at < first or data[at] != 32:
        return _NOTHING
    return at


@inlined
def _request(data: Bytes, begin: int, stop: int, begins: Int32s, lengths: Int32s, line: int) -> None:
    """The method, the path and the protocol of the request data[begin:stop]."""
    method = _word_end(data, begin, stop)
    if method == begin or (method < stop and data[method] != 32):
        return
    begins[4, line], lengths[4, line] = begin, method - begin
    if method == stop:
        return
    space = _protocol(data, method + 1, stop)
    end = stop if space < 0 else space
    begins[5, line], lengths[5, line] = method + 1, end - method - 1
    if space >= 0:
        begins[6, line], lengths[6, line] = space + 1, stop - space - 1


@compiled
def cut(data: Bytes, bounds: Int32s, begins: Int32s, lengths: Int32s) -> None:
    """Find each of `FIELDS` of each line, data[bounds[n]:bounds[n + 1]].

    Field f of line n is the `lengths[f, n]` bytes from begins[f, n] on; a length below 1 says that the line
    does not have it. A line has a client if it is an access log's, and none of the fields if it is not.
    """
    lengths[:] = _NOTHING
    for line in range(len(bounds) - 1):
        begin, stop = int(bounds[line]), int(bounds[line + 1])
        client = _word_end(data, begin, stop)
        if client == begin or client >= stop or data[client] != 32:
            continue
        ident = _word_end(data, client + 1, stop)
        if ident == client + 1 or ident >= stop or data[ident] != 32:
            continue
        bracket = _find(data, ident + 1, stop, 91)
        if bracket >= stop or bracket < ident + 2 or data[bracket - 1] != 32:
            continue
        closed = _find(data, bracket + 1, stop, 93)
        if closed + 2 >= stop or data[closed + 1] != 32 or data[closed + 2] != 34:
            continue
        quote = _closing(data, closed + 3, stop)
        size = quote + 6  # where the bytes begin
        if size >= stop or data[quote + 1] != 32 or data[quote + 5] != 32:
            continue
        if not (_is_digit(data[quote + 2]) and _is_digit(data[quote + 3]) and _is_digit(data[quote + 4])):
            continue
        end = size + 1 if data[size] == 45 else size
        if end < stop and _is_digit(data[end]):
            while end < stop and not _is_space(data[end]) and data[end] != 34:
                end += 1
        elif data[size] != 45:
            continue
        begins[0, line], lengths[0, line] = begin, client - begin
        begins[1, line], lengths[1, line] = client + 1, ident - client - 1
        begins[2, line], lengths[2, line] = ident + 1, bracket - ident - 2
        begins[3, line], lengths[3, line] = bracket + 1, closed - bracket - 1
        _request(data, closed + 3, quote, begins, lengths, line)
        begins[7, line], lengths[7, line] = quote + 2, 3
        begins[8, line], lengths[8, line] = size, end - size
        if end + 2 >= stop or data[end] != 32 or data[end + 1] != 34:
            continue
        referer = _closing(data, end + 2, stop)
        if referer + 2 >= stop or data[referer + 1] != 32 or data[referer + 2] != 34:
            continue
        agent = _closing(data, referer + 3, stop)
        if agent < stop:
            begins[9, line], lengths[9, line] = end + 2, referer - end - 2
            begins[10, line], lengths[10, line] = referer + 3, agent - referer - 3

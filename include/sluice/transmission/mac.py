"""The `mac` of a record: proof that an edge agent of this instance gave the block its identity.

It is HMAC-SHA-256 under the instance's key, over

    host NUL src_file NUL src_offset NUL body

with the bytes of the headers and of the record's value. Its first 18 bytes are the header's value, 24
characters of base64url. This is unambiguous: neither a host nor a path nor a decimal number has a NUL, and a
record whose host or file has one is refused. `Identity.java` makes it; `genuine` checks it for both layers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Bools
from sluice.runtime.settings import Settings

BYTES = 18  # a multiple of three: the text has no padding, and texts in a row are the text of the bytes
CHARACTERS = 24
_SEPARATOR = b"\0"
_BLOCK, _DIGEST = 64, 32  # bytes of SHA-256


class KeyMissing(RuntimeError):
    """The instance has no key for identities."""


def identity_key(settings: Settings) -> bytes:
    """The instance's key. Raises KeyMissing, because an empty one is known to everybody."""
    key = settings.kafka.identity_key
    if not key:
        raise KeyMissing(
            f"no key for the lines' identities in {settings.home / 'secrets' / 'identity'}: "
            "`sluice up` makes one; on another machine set SLUICE_KAFKA__IDENTITY_KEY to it"
        )
    return key.encode()


def mac(key: bytes, host: bytes, src_file: bytes, src_offset: bytes, body: bytes) -> bytes:
    """The header's value for one record."""
    message = _SEPARATOR.join((host, src_file, src_offset, body))
    return base64.urlsafe_b64encode(hmac.digest(key, message, "sha256")[:BYTES])


def genuine(key: bytes, identity: Sequence[pa.Array], body: pa.Array, macs: pa.Array) -> Bools:
    """Which records have the mac of their identity (host, src_file, src_offset) and body.

    All arrays are binary and only `macs` has nulls. The mac of all is compared at once; only if a record is
    wrong are they compared one by one, each in constant time.
    """
    wanted = base64.urlsafe_b64encode(_digests(key, identity, body))
    given = macs.to_pylist()
    whole = pc.all(pc.equal(pc.fill_null(pc.binary_length(macs), 0), CHARACTERS), min_count=0).as_py()
    if whole and hmac.compare_digest(wanted, b"".join(given)):
        found = np.ones(len(macs), bool)
    else:
        found = np.array(
            [
                text is not None and hmac.compare_digest(text, wanted[at : at + CHARACTERS])
                for text, at in zip(given, range(0, len(wanted), CHARACTERS), strict=True)
            ],
            bool,
        )
    for names in identity[:2]:
        if (odd := pc.match_substring(names, _SEPARATOR)).true_count:
            found &= ~odd.to_numpy(zero_copy_only=False)
    return found


def _views(body: pa.Array) -> Iterator[memoryview]:
    """Each record's body without a copy of it."""
    _, bounds, data = body.buffers()
    ends = np.frombuffer(bounds or b"", np.int32)[body.offset : body.offset + len(body) + 1].tolist()
    view = memoryview(data or b"")
    return (view[begin:end] for begin, end in pairwise(ends))


def _digests(key: bytes, identity: Sequence[pa.Array], body: pa.Array) -> bytes:
    """The first BYTES of each record's HMAC in a row, made of two hashes each as RFC 2104 says.

    Copying a hash that already has the key and the file's name is twice as fast as `hmac.digest`.
    """
    host, src_file, src_offset = identity
    padded = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    names = pc.binary_join_element_wise(host, src_file, b"", _SEPARATOR).dictionary_encode()
    inner = hashlib.sha256(padded.translate(hmac.trans_36))
    begun = []
    for name in names.dictionary.to_pylist():  # a batch has few files
        begun.append(inner.copy())
        begun[-1].update(name)
    begin = [hash_.copy for hash_ in begun]
    end = hashlib.sha256(padded.translate(hmac.trans_5C)).copy
    places = pc.binary_join_element_wise(src_offset, b"", _SEPARATOR)
    made = []
    for at, place, text in zip(names.indices.to_pylist(), places.to_pylist(), _views(body), strict=True):
        first = begin[at]()
        first.update(place)
        first.update(text)
        second = end()
        second.update(first.digest())
        made.append(second.digest())
    return np.frombuffer(b"".join(made), np.uint8).reshape(-1, _DIGEST)[:, :BYTES].tobytes()

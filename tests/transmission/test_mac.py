"""What proves an identity, and what does not."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import Settings
from sluice.transmission.mac import KeyMissing, genuine, identity_key, mac
from tests.examples import examples

KEY = b"k" * 43
Record = tuple[bytes, bytes, bytes, bytes]  # host, file, offset, line

NAMES = st.binary(min_size=1, max_size=9).map(lambda name: name.replace(b"\0", b"0"))
RECORD = st.tuples(NAMES, NAMES, st.integers(0, 10**18).map(b"%d".__mod__), st.binary(max_size=99))


def checked(records: list[Record], macs: list[bytes | None], key: bytes = KEY) -> list[bool]:
    *identity, line = (pa.array(column, pa.binary()) for column in zip(*records, strict=True))
    return genuine(key, identity, line, pa.array(macs, pa.binary())).tolist()


def test_it_is_the_hmac_of_the_standard_library() -> None:
    message = b"web1\0/var/log/access.log\x004711\0the line"
    wanted = urlsafe_b64encode(hmac.new(KEY, message, "sha256").digest())[:24]
    assert mac(KEY, b"web1", b"/var/log/access.log", b"4711", b"the line") == wanted


@pytest.mark.slow
@examples(60)
@given(records=st.lists(RECORD, min_size=1, max_size=20), key=st.binary(min_size=1, max_size=99))
def test_what_is_proved_is_genuine_and_nothing_else(records: list[Record], key: bytes) -> None:
    macs: list[bytes | None] = [mac(key, *record) for record in records]
    assert checked(records, macs, key) == [True] * len(records)
    assert checked(records, macs, key + b"other") == [False] * len(records)
    for n in range(len(records)):
        for wrong in (None, b"", b"x" * 24, macs[n] + b"x", macs[n][:23]):  # type: ignore[index, operator]
            one = [*macs[:n], wrong, *macs[n + 1 :]]
            assert checked(records, one, key) == [at != n for at in range(len(records))]


def test_macs_of_other_lengths_do_not_shift_the_others() -> None:
    record = (b"web1", b"f", b"0", b"x")
    right = mac(KEY, *record)
    assert checked([record] * 3, [right[:12], right[12:] + right, right]) == [False, False, True]


@pytest.mark.parametrize("changed", range(4))
def test_each_part_is_proved(changed: int) -> None:
    record = [b"web1", b"f", b"7", b"line"]
    proof = mac(KEY, *record)
    record[changed] += b"0"
    assert checked([(record[0], record[1], record[2], record[3])], [proof]) == [False]


def test_a_separator_in_a_name_cannot_move_the_parts() -> None:
    """The bytes under the HMAC are the same: a line of one file as a line of another."""
    proof = mac(KEY, b"web1", b"f", b"7", b"8\0line")
    assert checked([(b"web1\0f", b"7", b"8", b"line")], [proof]) == [False]
    assert checked([(b"web1", b"f\x007", b"8", b"line")], [proof]) == [False]


def test_without_a_key_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(KeyMissing, match="sluice up"):
        identity_key(Settings(instance="test", home=tmp_path, kafka={"identity_key": ""}))

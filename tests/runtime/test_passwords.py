"""Passwords are kept as hashes that take their time."""

from __future__ import annotations

import hashlib

import pytest

from sluice.runtime.passwords import ROUNDS, SECRET_ROUNDS, PasswordHash


def test_a_password_is_known_by_its_hash() -> None:
    hashed = PasswordHash.of("right", SECRET_ROUNDS)
    assert hashed.is_of("right")
    assert not hashed.is_of("wrong")
    assert hashed.hash == hashlib.pbkdf2_hmac("sha256", b"right", bytes.fromhex(hashed.salt), 1_000).hex()


def test_equal_passwords_have_different_hashes() -> None:
    first, second = (PasswordHash.of("same", SECRET_ROUNDS) for _ in range(2))
    assert first.salt != second.salt
    assert first.hash != second.hash


@pytest.mark.slow
def test_a_persons_password_takes_many_rounds() -> None:
    assert PasswordHash.of("x").rounds == ROUNDS >= 600_000

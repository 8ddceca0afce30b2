"""Hashes of passwords: PBKDF2 with HMAC-SHA-256, which Python and Java both have."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

#: For passwords that people may choose (OWASP, Password Storage Cheat Sheet, 2023).
ROUNDS = 600_000
#: For secrets of 32 random bytes, which cannot be guessed, however fast each guess is.
SECRET_ROUNDS = 1_000
_SALT_BYTES = 16


@dataclass(frozen=True)
class PasswordHash:
    """A password's hash with its salt and its rounds; salt and hash are hexadecimal."""

    salt: str
    rounds: int
    hash: str

    @classmethod
    def of(cls, password: str, rounds: int = ROUNDS) -> PasswordHash:
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(salt.hex(), rounds, _hash(password, salt, rounds).hex())

    def is_of(self, password: str) -> bool:
        """Whether this is the password's hash, compared in constant time."""
        found = _hash(password, bytes.fromhex(self.salt), self.rounds)
        return hmac.compare_digest(found, bytes.fromhex(self.hash))


def _hash(password: str, salt: bytes, rounds: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(errors="surrogatepass"), salt, rounds)

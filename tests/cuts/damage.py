"""What a power cut does to the end of a file, drawn by a seed that is said."""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass
from pathlib import Path

#: How many bytes are lost at the end of a file.
LOST_BYTES = (1, 64 << 10)


@dataclass(frozen=True)
class Damage:
    """One file's loss. kept: how many bytes of it are as they were."""

    path: Path
    kept: int
    lost: int
    zeros: bool


def dice(seed: int | None = None) -> random.Random:
    """Draws by this seed; without one by a new one, which it prints."""
    if seed is None:
        seed = secrets.randbits(32)
        print(f"seed {seed}")
    return random.Random(seed)  # noqa: S311


def content_end(path: Path, padding: bytes = b"") -> int:
    """Where the file's content ends, if a store filled it up with such bytes in advance."""
    data = path.read_bytes()
    return len(data.rstrip(padding)) if padding else len(data)


def damage(
    path: Path,
    drawn: random.Random,
    *,
    zeros: bool,
    padding: bytes = b"",
    end: int = 0,
    most: int = LOST_BYTES[1],
) -> Damage:
    """Lose up to 64 KiB at the end of the file's content: cut off, or zeros in their place.

    padding: with what the store fills files up in advance. end: where the content ends, if the store says so.
    """
    end = end or content_end(path, padding)
    lost = min(drawn.randint(LOST_BYTES[0], most), end)
    done = Damage(path, end - lost, lost, zeros)
    if zeros:
        with path.open("r+b") as file:
            file.seek(done.kept)
            file.write(bytes(lost))
    else:
        os.truncate(path, done.kept)
    print(f"{path.name}: {end} bytes of content, {lost} lost" + (", zeros instead" if zeros else ""))
    return done

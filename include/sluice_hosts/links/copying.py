"""A folder is copied to a host: it is there whole, on the disk, or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePath

from sluice_hosts.links.ssh import RemoteFailed, SshLink

SUMS = "SHA256SUMS"
#: The files of a folder, by their names: where they lie, or what they say.
Files = Mapping[str, Path | bytes]

_CHECK_SECONDS = 120.0  # 40 MB on a slow disk


def copied(link: SshLink, folder: PurePath, files: Files) -> bool:
    """Copy a folder unless it is there; return whether it was copied.

    It gets its name only when its checksums are right, and after its files are on the disk, so that no loss
    of power leaves a damaged one under that name. A copy that was broken off is gone on with.
    """
    there = link.run("sh", "-c", '[ ! -d "$1" ] || echo there', "sh", str(folder))
    if there.strip():
        return False
    new = folder.with_name(f".{folder.name}.new")
    link.copy(new, files)
    check = f'cd "$1" && sha256sum -c {SUMS} >/dev/null && sync -f .'
    try:
        link.run("sh", "-c", check, "sh", str(new), seconds=_CHECK_SECONDS)
    except RemoteFailed:
        link.run("rm", "-rf", str(new))  # damaged: what is sent next must not go on with it
        raise
    link.run("sh", "-c", 'mv "$1" "$2" && sync -f "$2"', "sh", str(new), str(folder), seconds=_CHECK_SECONDS)
    return True


def summed(files: Files) -> tuple[bytes, str]:
    """A list that `sha256sum -c` takes, and the short checksum of the list."""
    lines = []
    for name, content in sorted(files.items()):
        data = content if isinstance(content, bytes) else content.read_bytes()
        lines.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    sums = "".join(lines).encode()
    return sums, hashlib.sha256(sums).hexdigest()[:16]

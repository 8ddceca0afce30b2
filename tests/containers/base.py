"""A base for the image where no registry of images can be reached: Debian 12 with its own Python 3.11.

``python -m tests.containers.base``. debootstrap makes it from Debian's packages. The certificates that this
machine trusts in addition go with it, and so the build can download through a proxy that has one of them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.containers.podman import BASE, environment, podman

PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
#: What differs from run to run, or only takes room.
NEEDLESS = ("var/lib/apt/lists", "var/cache", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale")
SECONDS = 1200.0
LONG_AGO = 315532800  # 1980, the first year that a zip file can name


def ensure() -> None:
    """Make the base unless podman has it."""
    if podman("images", "-q", BASE).strip():
        return
    with tempfile.TemporaryDirectory(prefix="sluice-base") as scratch:
        root = Path(scratch) / "root"
        _run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root))
        subprocess.run(["umount", str(root / "proc")], capture_output=True, check=False)
        for certificate in CERTIFICATES.glob("*.crt"):
            shutil.copy(certificate, root / "usr/local/share/ca-certificates")
        _run("chroot", str(root), "update-ca-certificates")
        for directory in NEEDLESS:
            shutil.rmtree(root / directory)
            (root / directory).mkdir()
        _import(root)


def _import(root: Path) -> None:
    variables = [f"--change=ENV={name}={BUNDLE}" for name in ("SSL_CERT_FILE", "PIP_CERT")]
    order = ("--sort=name", f"--mtime=@{LONG_AGO}", "--numeric-owner", "--one-file-system")
    with subprocess.Popen(["tar", "-C", str(root), *order, "-c", "."], stdout=subprocess.PIPE) as tar:
        subprocess.run(
            ["podman", "import", "-q", *variables, "-", BASE],
            env=environment(),
            stdin=tar.stdout,
            check=True,
            timeout=SECONDS,
        )
    assert tar.returncode == 0


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, f"{argv[0]}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"


if __name__ == "__main__":
    ensure()

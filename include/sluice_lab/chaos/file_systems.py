"""Gives each store a small file system of its own, so that one disk can be full or slow and others are not.

The file systems are images, mounted where the stores keep their data before these exist.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sluice.runtime.settings import Settings
from sluice_lab.chaos.slow_disk import thaw

#: Of each file system, in bytes: its reserve is a quarter, and HDFS refuses blocks at an eighth of a GiB.
SIZE = 4 << 30
#: The folder of each store, below the instance's.
FOLDERS: Mapping[str, str] = {
    "kafka": "data/kafka",
    "postgres": "data/postgres",
    "namenode": "data/namenode",
    "datanode": "data/datanode",
    "hbase": "data/zookeeper",
}
PROBE = 64 << 20
IMAGES = "disk-images"


class NotMounted(RuntimeError):
    """A file system could not be made or mounted."""


def why_not(settings: Settings) -> str:
    """Why no store's disk can be full or slow here; empty if each has a file system of its own."""
    shared = [name for name, folder in FOLDERS.items() if not os.path.ismount(settings.home / folder)]
    if not shared:
        return ""
    return why_none(settings) or f"{', '.join(shared)}: the data lies in a file system with others'"


def why_none(settings: Settings) -> str:
    """Why no file systems can be made here; empty if they can."""
    if os.geteuid() != 0:
        return "only root may mount file systems"
    if missing := [name for name in ("mkfs.ext4", "mount", "umount") if shutil.which(name) is None]:
        return f"there is no {missing[0]} (Debian: apt install e2fsprogs mount)"
    probe = settings.home / "probe"
    try:
        give_file_system(probe.with_suffix(".image"), probe, PROBE)
    except (NotMounted, OSError) as error:
        return str(error)
    finally:
        take_file_system(probe)
        with suppress(OSError):
            probe.rmdir()
        probe.with_suffix(".image").unlink(missing_ok=True)
    return ""


def mount(settings: Settings) -> None:
    """Give each store its file system. The instance must not have begun. Raises NotMounted."""
    (settings.home / IMAGES).mkdir()
    for name, folder in FOLDERS.items():
        give_file_system(settings.home / IMAGES / name, settings.home / folder, SIZE)


def wake(settings: Settings) -> None:
    """Let each file system take writes again, in case a run ended before it did so."""
    for folder in FOLDERS.values():
        if os.path.ismount(settings.home / folder):
            thaw(settings.home / folder)


def unmount(settings: Settings) -> None:
    """Take the file systems away; nothing must run. The images stay in the instance's folder."""
    for folder in FOLDERS.values():
        take_file_system(settings.home / folder)


def give_file_system(image: Path, folder: Path, size: int) -> None:
    """Make a file system of that size in the image, and mount it at the folder, empty. Raises NotMounted."""
    with image.open("wb") as file:
        file.truncate(size)
    folder.mkdir(parents=True, exist_ok=True)
    # No share is kept for root: a daemon that runs as root must find it as full as others.
    quick = "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0"
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-J", "size=8", "-E", quick, str(image))
    _run("mount", "-o", "loop", str(image), str(folder))
    (folder / "lost+found").rmdir()  # Kafka and PostgreSQL refuse a folder with something in it
    folder.chmod(0o700)


def take_file_system(folder: Path) -> None:
    """Unmount what is mounted there, if anything is. Raises NotMounted."""
    if os.path.ismount(folder):
        _run("umount", "-l", str(folder))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMounted(f"{command[0]}: {' '.join(done.stderr.split()) or done.returncode}")

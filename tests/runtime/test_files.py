"""A file is replaced as a whole, whoever owns its directory."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.runtime import files
from sluice.runtime.files import write_whole


def test_it_has_the_text_and_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    write_whole(path, "new", 0o600)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_under_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    """Who owns the directory, as PostgreSQL's account does, could name a file of root so."""
    target, path = tmp_path / "target", tmp_path / "file"
    target.write_text("kept")
    (tmp_path / f".file.{threading.get_native_id()}").symlink_to(target)
    write_whole(path, "new")
    assert (target.read_text(), path.read_text()) == ("kept", "new")


@pytest.mark.parametrize("durable", [True, False])
def test_it_is_on_disk_before_it_has_its_name(
    durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    synced: list[tuple[bool, bool]] = []  # of each sync: a folder, and whether the name was there by then

    def sync(opened: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(opened).st_mode), path.exists()))

    monkeypatch.setattr(files.os, "fsync", sync)
    write_whole(path, "new", durable=durable)
    assert synced == ([(False, False), (True, True)] if durable else [])


def test_many_at_once_do_not_disturb_one_another(tmp_path: Path) -> None:
    text = "a" * 10_000
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write_whole(tmp_path / "file", f"{n}{text}"), range(200)))
    assert (tmp_path / "file").read_text().endswith(text)

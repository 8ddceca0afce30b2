"""A backup of the running platform, restored into an instance beside it: the same results, and it counts on.

The restored instance runs in the network of the tests' own, so its daemons need no doors. Two whole platforms
need 11 GiB of memory.
"""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import pytest

from sluice.backup.folder import listed
from sluice_lab.access_lines import access_lines
from sluice_lab.draining import DRAIN_SECONDS
from sluice_lab.waiting import until
from tests.e2e.beside import InstanceBeside, counted
from tests.e2e.running import PIECE, TIMEOUT_SECONDS, TOPIC, Platform, traffic

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(TIMEOUT_SECONDS)]

PUBLISHED, OPEN = dt.date(2024, 6, 3), dt.date(2024, 6, 4)


def backup(platform: Platform, target: Path) -> tuple[Path, str]:
    done = platform.sluice("backup", str(target))
    assert done.returncode == 0, done.stdout + done.stderr
    return max(path for path in target.iterdir() if (path / "manifest.json").exists()), done.stdout


def names(folder: Path) -> dict[str, str]:
    return {each.path: each.sha256 for each in listed(folder) if each.sha256}


@pytest.fixture
def backed_up(platform: Platform, tmp_path: Path) -> Path:
    """The second of two backups, taken while lines come; a day is published."""
    target = tmp_path / "backups"
    platform.write(PUBLISHED, access_lines(PUBLISHED, 400, seed=1))
    platform.drain()
    night = platform.sluice("nightly", "--from", f"{PUBLISHED}", "--to", f"{PUBLISHED}")
    assert night.returncode == 0, night.stdout + night.stderr
    first, _ = backup(platform, target)
    pooled = {path: path.stat().st_mtime_ns for path in (target / "pool").rglob("*") if path.is_file()}
    more = access_lines(OPEN, 4_000, seed=2)
    with traffic(lambda done: platform.write(OPEN, more[done : done + PIECE])):
        until(lambda: len(platform.written.get(OPEN, [])) >= 400, DRAIN_SECONDS)
        second, said = backup(platform, target)
    platform.drain()
    new = {path for path in names(second) if path not in names(first)}
    assert new
    assert f"{len(new):,} of them new" in said
    assert {path: path.stat().st_mtime_ns for path in pooled} == pooled
    return second


def test_a_backup_is_restored_and_counts_on(
    platform: Platform, beside: InstanceBeside, backed_up: Path
) -> None:
    done = beside.sluice("restore", str(backed_up.parent))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{backed_up} is restored" in done.stdout
    refused = beside.sluice("restore", str(backed_up))
    assert (refused.returncode, "has data" in refused.stderr) == (2, True)
    # The machine's log files outlive the instance.
    shutil.copytree(platform.settings.home / "frontends", beside.home / "frontends", dirs_exist_ok=True)
    up = beside.sluice("up")
    assert up.returncode == 0, up.stdout + up.stderr
    # The published day is there at once; of the open one, what came after the backup comes from its files.
    lines = {day: list(platform.written[day]) for day in (PUBLISHED, OPEN)}
    assert beside.hits(PUBLISHED) == counted(lines[PUBLISHED])
    until(lambda: beside.hits(OPEN) == counted(lines[OPEN]), DRAIN_SECONDS, "all lines count once", 2)
    verified = beside.sluice("archive", "verify", TOPIC, "--deep")
    assert verified.returncode == 0, verified.stdout

    late = access_lines(OPEN, 100, seed=3)
    with (beside.home / "frontends" / "web1" / f"access.{OPEN}.log").open("a") as out:
        out.writelines(f"{line}\n" for line in late)
    wanted = counted([*lines[OPEN], *late])
    until(lambda: beside.hits(OPEN) == wanted, DRAIN_SECONDS, "new lines count", 2)
    night = beside.sluice("nightly", "--from", f"{PUBLISHED}", "--to", f"{OPEN}")
    assert night.returncode == 0, night.stdout + night.stderr
    assert f"{OPEN} {TOPIC}: agrees" in night.stdout
    assert beside.hits(OPEN) == wanted

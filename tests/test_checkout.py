"""`tests.e2e.checkout` finds the last release in a history, or says why it cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.checkout import NoRelease, head, released

CHANGES = "# Changelog\n\n## [Unreleased]\n"


def commit(root: Path, text: str) -> str:
    """Write the changelog and commit it; returns the commit."""
    (root / "CHANGELOG.md").write_text(text)
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    for words in (("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", f"{root}", *words], check=True)
    return head(root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", f"{tmp_path}"], check=True)
    return tmp_path


@pytest.mark.slow
def test_the_commit_that_cut_the_newest_version(root: Path) -> None:
    commit(root, CHANGES)
    first = commit(root, f"{CHANGES}- one\n\n## [0.1.0] - 2026-01-01\n")
    commit(root, f"{CHANGES}- two\n\n## [0.1.0] - 2026-01-01\n")
    assert released(root) == ("0.1.0", first)
    second = commit(root, f"{CHANGES}\n## [0.2.0] - 2026-02-01\n- two\n\n## [0.1.0] - 2026-01-01\n")
    assert released(root) == ("0.2.0", second)


@pytest.mark.slow
def test_a_history_without_it_is_said_to_have_none(root: Path, tmp_path: Path) -> None:
    commit(root, CHANGES)
    with pytest.raises(NoRelease, match="the changelog has no release"):
        released(root)
    commit(root, f"{CHANGES}\n## [0.1.0] - 2026-01-01\n")
    commit(root, f"{CHANGES}- more\n\n## [0.1.0] - 2026-01-01\n")
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{root}", f"{shallow}"], check=True)
    with pytest.raises(NoRelease, match="the history is shallow"):
        released(shallow)
    (root / "CHANGELOG.md").write_text("## [9.9.9]\n")  # not committed
    with pytest.raises(NoRelease, match=r"no commit of the history cut 9\.9\.9"):
        released(root)


def test_a_folder_without_a_history(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text("## [0.1.0]\n")
    with pytest.raises(NoRelease, match="git knows no history"):
        released(tmp_path)

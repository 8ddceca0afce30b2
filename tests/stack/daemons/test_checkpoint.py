"""The namenode's journal becomes part of its image while it runs."""

from __future__ import annotations

import sys

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import health
from sluice.stack.daemons import checkpoint
from sluice.stack.daemons.checkpoint import CheckpointFailed
from sluice.storage.hdfs import HdfsStore

IMAGE = {"JournalTransactionInfo": '{"MostRecentCheckpointTxId": "0"}'}


def failing(settings: Settings, main_class: str, *arguments: str) -> list[str]:
    """In the place of the JVM: it says why it fails."""
    said = f"{main_class.rsplit('.', 1)[1]} {' '.join(arguments)}: Connection refused"
    return [sys.executable, "-c", f"import sys; print('starts'); sys.exit({said!r})"]


def test_a_failure_says_what_it_means(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    settings = Settings(instance="test", home=tmp_path)
    monkeypatch.setattr(checkpoint, "hadoop_java", failing)
    monkeypatch.setattr(checkpoint, "require", lambda component: None)
    monkeypatch.setattr(health, "jmx", lambda url, bean: IMAGE)
    said = "failed: SecondaryNameNode -checkpoint force: Connection refused. .* grows until one succeeds"
    with pytest.raises(CheckpointFailed, match=said):
        checkpoint.checkpoint(settings)


def test_a_refused_image_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A secondary namenode ends with 0 when the namenode refuses its image."""
    settings = Settings(instance="test", home=tmp_path)
    monkeypatch.setattr(checkpoint, "hadoop_java", lambda *given: [sys.executable, "-c", ""])
    monkeypatch.setattr(checkpoint, "require", lambda component: None)
    monkeypatch.setattr(health, "jmx", lambda url, bean: IMAGE)
    with pytest.raises(CheckpointFailed, match="did not take the checkpoint"):
        checkpoint.checkpoint(settings)


def test_an_external_hdfs_is_left_alone(tmp_path: object) -> None:
    settings = Settings(instance="test", home=tmp_path, external=frozenset({"hdfs"}))
    assert "its own people" in checkpoint.checkpoint(settings)


@pytest.mark.stack
def test_the_journal_becomes_part_of_the_image(stack: Settings) -> None:
    """With a real namenode, which goes on serving."""
    current = stack.home / "data" / "namenode" / "current"

    def images() -> list[int]:
        return sorted(int(path.name.rsplit("_")[1]) for path in current.glob("fsimage_*") if not path.suffix)

    store, before = HdfsStore.of(stack), images()[-1]
    store.make_directory("/checkpointed")
    assert checkpoint.checkpoint(stack) == "the namenode's journal is part of its image"
    first = images()[-1]
    assert first > before
    store.make_directory("/checkpointed/again")
    checkpoint.checkpoint(stack)  # soon after the last one
    assert images()[-1] > first
    assert len(images()) <= 2
    store.delete("/checkpointed", recursive=True)

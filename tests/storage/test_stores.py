"""Stores behind URLs; a local one behaves as HDFS does."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sluice.storage.hdfs import HdfsStore
from sluice.storage.stores import LocalStore, Stores


def test_a_url_names_its_store_and_a_path_in_it(tmp_path: Path) -> None:
    stores = pickle.loads(pickle.dumps(Stores("http://127.0.0.1:9", "sluice")))  # noqa: S301
    store, path = stores.at("hdfs://127.0.0.1:8020/warehouse/day=1/a b.parquet")
    assert isinstance(store, HdfsStore)
    assert path == "/warehouse/day=1/a b.parquet"
    for url in (str(tmp_path / "a%b"), (tmp_path / "a%b").as_uri()):
        store, path = stores.at(url)
        assert isinstance(store, LocalStore)
        assert path == str(tmp_path / "a%b")
    with pytest.raises(ValueError, match="s3://bucket/a: neither hdfs: nor file:"):
        stores.at("s3://bucket/a")


def test_local_files_are_written_read_listed_and_deleted(tmp_path: Path) -> None:
    store, folder = LocalStore(), str(tmp_path / "new")
    assert store.list(folder) == []
    assert store.status(f"{folder}/a") is None
    store.write(f"{folder}/a", b"0123456789")
    store.make_directory(f"{folder}/sub")
    assert [(f.name, f.length) for f in store.list(folder) if not f.directory] == [("a", 10)]
    assert store.read(f"{folder}/a") == b"0123456789"
    assert store.read(f"{folder}/a", 3, 4) == b"3456"
    assert store.delete(f"{folder}/sub")
    assert not store.delete(f"{folder}/sub")
    assert store.delete(f"{folder}/a")
    assert store.delete(folder, recursive=True)
    assert not tmp_path.joinpath("new").exists()


def test_a_local_rename_claims_a_name_once(tmp_path: Path) -> None:
    store = LocalStore()
    for name in ("one", "two"):
        store.write(f"{tmp_path}/{name}", name.encode())
    assert store.rename(f"{tmp_path}/one", f"{tmp_path}/claimed")
    assert not store.rename(f"{tmp_path}/two", f"{tmp_path}/claimed")
    assert store.read(f"{tmp_path}/claimed") == b"one"
    assert not store.rename(f"{tmp_path}/one", f"{tmp_path}/elsewhere")

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from octave_gen.build import cache, files
from octave_gen.build.cache import Cache
from octave_gen.errors import OctaveError

KEY = cache.key("test", part=1)
OTHER = cache.key("test", part=2)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, lines: list[str]) -> Cache:
    return Cache(tmp_path / "cache", 1 << 20, 1.0, lines.append)


def put(store: Cache, name: str, data: bytes) -> Path:
    with store.writing() as session:
        session.put(name, data)
    (path,) = (path for path in store.folder.rglob(name) if path.is_file())
    return path


def test_key_names_every_part() -> None:
    keys = [cache.key("a", x=1), cache.key("b", x=1), cache.key("a", x=2), cache.key("a", y=1), cache.key("a", x="1")]
    assert len(set(keys)) == len(keys)
    assert cache.key("a", x=1, y=[2]) == cache.key("a", y=[2], x=1)


def test_entry_comes_back(store: Cache, lines: list[str]) -> None:
    assert store.get(KEY) is None
    put(store, KEY, b"data")
    assert store.get(KEY) == b"data"
    assert store.get(OTHER) is None
    put(store, KEY, b"")
    assert store.get(KEY) == b""
    assert lines == []


@pytest.mark.parametrize("damage", ["flipped", "truncated", "emptied", "header", "appended", "renamed"])
def test_damaged_entry_is_quarantined_and_missed(store: Cache, lines: list[str], damage: str) -> None:
    path = put(store, KEY, b"some data")
    whole = path.read_bytes()
    if damage == "renamed":
        path = put(store, OTHER, b"other")
        path.write_bytes(whole)
    else:
        changed = {
            "flipped": whole[:-1] + bytes([whole[-1] ^ 1]),
            "truncated": whole[:-1],
            "emptied": b"",
            "header": whole[1:],
            "appended": whole + b"\0",
        }
        path.write_bytes(changed[damage])
    assert store.get(path.name) is None
    assert not path.exists()
    assert len(list((store.folder / "quarantine").iterdir())) == 1
    assert len(lines) == 1
    assert "damaged" in lines[0]
    put(store, path.name, b"again")
    assert store.get(path.name) == b"again"


def test_what_a_killed_process_left_is_swept(store: Cache) -> None:
    left = store.folder / "tmp" / "dead"
    left.mkdir(parents=True)
    (left / "half.hsaco").write_bytes(b"x")
    with store.writing() as session:
        assert not left.exists()
        assert session.scratch.is_dir()
    assert list((store.folder / "tmp").iterdir()) == []


def test_failed_session_keeps_what_was_stored(store: Cache) -> None:
    def interrupted() -> None:
        with store.writing() as session:
            session.put(KEY, b"done")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.get(KEY) == b"done"
    assert list((store.folder / "tmp").iterdir()) == []


def test_least_recently_used_entries_are_evicted(tmp_path: Path) -> None:
    store = Cache(tmp_path, 3500, 1.0, lambda line: None)
    names = [cache.key("entry", number=i) for i in range(3)]
    paths = [put(store, name, bytes(1000)) for name in names]
    for age, path in zip((30, 20, 10), paths, strict=True):
        os.utime(path, (time.time() - age, time.time() - age))
    assert store.get(names[0]) is not None  # the oldest is used again
    put(Cache(tmp_path, 3500, 1.0, lambda line: None), KEY, bytes(1000))  # by another process
    assert [path.exists() for path in paths] == [True, False, True]


def test_quarantine_is_evicted_first(tmp_path: Path) -> None:
    store = Cache(tmp_path, 2500, 1.0, lambda line: None)
    put(store, KEY, bytes(1000)).write_bytes(bytes(1000))
    assert store.get(KEY) is None
    put(store, KEY, bytes(1000))
    put(store, OTHER, bytes(1000))
    assert store.get(KEY) is not None
    assert store.get(OTHER) is not None
    assert list((tmp_path / "quarantine").iterdir()) == []


def test_entry_larger_than_the_limit_is_no_error(tmp_path: Path) -> None:
    store = Cache(tmp_path, 10, 1.0, lambda line: None)
    with store.writing() as session:
        session.put(KEY, bytes(1000))
        assert store.get(KEY) == bytes(1000)
    assert store.get(KEY) is None


@pytest.mark.parametrize("place", ["under a file", "/proc/octave"])
def test_unwritable_cache_names_the_variable(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache" if place == "under a file" else Path(place)
    store = Cache(folder, 1 << 20, 1.0, lambda line: None)
    with pytest.raises(OctaveError) as caught, store.writing():
        pass
    assert "cannot be written" in caught.value.what
    assert "OCTAVE_CACHE_DIR" in str(caught.value.hint)
    assert str(folder.parent) in str(caught.value.where)


def test_unreadable_cache_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OctaveError, match="cannot be read") as caught:
        Cache(tmp_path / "file", 1 << 20, 1.0, lambda line: None).get(KEY)
    assert "OCTAVE_CACHE_DIR" in str(caught.value.hint)


def test_full_disk_leaves_no_entry(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with store.writing() as session:
        monkeypatch.setattr(files.os, "fsync", full)
        with pytest.raises(OctaveError, match="No space left") as caught:
            session.put(KEY, b"data")
        assert list(session.scratch.iterdir()) == []
    assert "free some space" in str(caught.value.hint)
    assert "OCTAVE_CACHE_DIR" in str(caught.value.hint)
    assert store.get(KEY) is None


def test_cache_that_can_only_be_read_still_hits(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, KEY, b"data")

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    assert store.get(KEY) == b"data"

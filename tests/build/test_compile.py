from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from octave_gen.build import cache, compile, toolchain
from octave_gen.build.cache import Cache, Session
from octave_gen.build.compile import Compiled, Job
from octave_gen.build.toolchain import DeviceCompiler
from octave_gen.errors import OctaveError

Run = Callable[..., Compiled]


def job(name: str, text: str = "ok") -> Job:
    return Job(name, text, "gfx942", cache.key("test", name=name))


def stand_in(script: str) -> DeviceCompiler:
    """A compiler that is a shell script: ``$source`` and ``$object`` are its files."""
    find = 'for last; do :; done; object=$last; source="${last%.hsaco}.hip"; '
    return DeviceCompiler("test", "1", "0", ("sh", "-c", find + script, "compiler"))


COPY = stand_in('cat "$source" > "$object"')
REFUSE_BAD = stand_in('grep -q bad "$source" && { echo "x.hip:1:2: error: bad" >&2; exit 1; }; cp "$source" "$object"')


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 1 << 30, 1.0, print)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def run(store: Cache, lines: list[str], tmp_path: Path) -> Run:
    def compile_with(
        compiler: DeviceCompiler, jobs: list[Job], keep_going: bool = False, parallel: int = 1
    ) -> Compiled:
        with store.writing() as session:
            return compile.compile_units(
                jobs,
                compiler=compiler,
                include=tmp_path,
                session=session,
                parallel=parallel,
                keep_going=keep_going,
                progress=lines.append,
            )

    return compile_with


def test_objects_are_returned_and_cached(run: Run, store: Cache, lines: list[str]) -> None:
    compiled = run(COPY, [job("a", "one"), job("b", "two")])
    assert compiled == Compiled({"a": b"one", "b": b"two"}, ())
    assert store.get(job("a").key) == b"one"
    assert [line.rpartition(" ")[0].rpartition(" ")[0] for line in lines] == ["[1/2] a", "[2/2] b"]
    assert all(line.endswith(" s") for line in lines)


def test_object_is_cached_as_soon_as_it_is_done(run: Run, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes | None] = []
    original = Session.put

    def put(session: Session, name: str, data: bytes) -> None:
        original(session, name, data)
        seen.append(store.get(name))
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "put", put)
    with pytest.raises(KeyboardInterrupt):
        run(COPY, [job("a", "one"), job("b", "two")])
    assert seen == [b"one"]
    assert store.get(job("a").key) == b"one"
    assert list((store.folder / "tmp").iterdir()) == []


def test_nothing_to_do_needs_no_ninja(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ninja", None)
    assert run(COPY, []) == Compiled({}, ())


def test_first_failure_stops_the_build(run: Run, store: Cache, lines: list[str]) -> None:
    compiled = run(REFUSE_BAD, [job("a"), job("b", "bad"), job("c")])
    assert [failure.job.name for failure in compiled.failures] == ["b"]
    assert compiled.code_objects == {"a": b"ok"}
    assert store.get(job("a").key) == b"ok"
    assert lines[-1].endswith("FAILED")


def test_keep_going_builds_the_rest(run: Run) -> None:
    compiled = run(REFUSE_BAD, [job("a", "bad"), job("b"), job("c", "bad"), job("d")], keep_going=True)
    assert sorted(failure.job.name for failure in compiled.failures) == ["a", "c"]
    assert sorted(compiled.code_objects) == ["b", "d"]
    assert compiled.failures[0].log == "x.hip:1:2: error: bad\n"
    assert compiled.failures[0].status == 1


def test_half_written_object_is_not_taken(run: Run, store: Cache) -> None:
    compiled = run(stand_in('printf half > "$object"; kill -9 $$'), [job("a")])
    assert compiled.code_objects == {}
    (failure,) = compiled.failures
    assert failure.status == 128 + 9
    assert store.get(job("a").key) is None


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


@pytest.mark.usefixtures("full_disk")
def test_crash_on_a_full_disk_is_told_as_such(run: Run, store: Cache) -> None:
    with pytest.raises(OctaveError, match="disk is full") as caught:
        run(stand_in("echo 'zig: error: unable to execute command: Bus error' >&2; exit 1"), [job("a")])
    assert caught.value.where == str(store.folder)
    assert "OCTAVE_CACHE_DIR" in str(caught.value.hint)


@pytest.mark.usefixtures("full_disk")
def test_diagnostic_is_not_hidden_by_a_full_disk(run: Run) -> None:
    assert len(run(REFUSE_BAD, [job("a", "bad")]).failures) == 1


def test_missing_ninja_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ninja", None)
    with pytest.raises(OctaveError, match="ninja is not installed") as caught:
        run(COPY, [job("a")])
    assert "install the Python package ninja" in str(caught.value.hint)


def test_ninja_package_without_program(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import ninja

    monkeypatch.setattr(ninja, "BIN_DIR", str(tmp_path))
    with pytest.raises(OctaveError, match="has no program") as caught:
        run(COPY, [job("a")])
    assert str(tmp_path) in str(caught.value.where)


def test_compiler_that_is_not_there_fails_every_unit(run: Run) -> None:
    gone = replace(COPY, command=("/nowhere/clang",))
    (failure,) = run(gone, [job("a")]).failures
    assert failure.status == 127
    assert "/nowhere/clang" in failure.log


def test_folder_with_odd_characters(tmp_path: Path) -> None:
    folder = tmp_path / "a b$c:'d"
    folder.mkdir()
    (folder / "h.h").write_text("#define X 1\n")
    store = Cache(folder / "cache", 1 << 30, 1.0, print)
    text = '#include "h.h"\nextern "C" __attribute__((global)) void k(int* x) { *x = X; }\n'
    with store.writing() as session:
        compiled = compile.compile_units(
            [job("k", text)],
            compiler=toolchain.find("ziglang"),
            include=folder,
            session=session,
            parallel=1,
            keep_going=False,
            progress=lambda line: None,
        )
    assert compiled.failures == ()
    assert compiled.code_objects["k"].startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("cores", "available", "jobs"), [(8, 64 << 30, 8), (8, 3 * compile.PEAK_BYTES, 3), (8, 1, 1), (1, 64 << 30, 1)]
)
def test_default_jobs(monkeypatch: pytest.MonkeyPatch, cores: int, available: int, jobs: int) -> None:
    monkeypatch.setattr(compile.os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setattr(compile, "_available_memory", lambda: available)
    assert compile.default_jobs() == jobs


def test_available_memory_is_this_machines() -> None:
    assert 1 << 20 < compile._available_memory() < 1 << 50

"""The environment variables: defaults, values, and values that cannot be understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from octave_gen import settings
from octave_gen.errors import WRONG_REQUEST, OctaveError

ALL = (*settings.VARIABLES, "XDG_CACHE_HOME")


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ALL:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    return monkeypatch


DEFAULTS = settings.Settings(
    cache_dir=Path("/home/someone/.cache/octave-gen"),
    cache_limit=2 * 1024**3,
    lock_timeout=600.0,
    host_compiler="g++",
    rocm_path=Path("/opt/rocm"),
)


def test_defaults(clean: pytest.MonkeyPatch) -> None:
    assert settings.read() == DEFAULTS


def test_an_empty_variable_is_as_good_as_none(clean: pytest.MonkeyPatch) -> None:
    for name in ALL:
        clean.setenv(name, "")
    assert settings.read() == DEFAULTS


def test_every_variable_is_read(clean: pytest.MonkeyPatch) -> None:
    values = {
        "OCTAVE_CACHE_DIR": "~/kernels",
        "OCTAVE_CACHE_LIMIT": "500M",
        "OCTAVE_LOCK_TIMEOUT": "5",
        "CXX": "clang++",
        "ROCM_PATH": "/opt/rocm-7",
    }
    assert set(values) == set(settings.VARIABLES)
    for name, value in values.items():
        clean.setenv(name, value)
    assert settings.read() == settings.Settings(
        cache_dir=Path("/home/someone/kernels"),
        cache_limit=500 * 1024**2,
        lock_timeout=5.0,
        host_compiler="clang++",
        rocm_path=Path("/opt/rocm-7"),
    )


def test_the_cache_follows_xdg(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("XDG_CACHE_HOME", "/var/cache/someone")
    assert settings.read().cache_dir == Path("/var/cache/someone/octave-gen")
    clean.setenv("OCTAVE_CACHE_DIR", "/fast/disk")
    assert settings.read().cache_dir == Path("/fast/disk")


@pytest.mark.parametrize("name", ["OCTAVE_CACHE_DIR", "XDG_CACHE_HOME", "ROCM_PATH"])
def test_folders_are_absolute(name: str, clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean.chdir(tmp_path)
    clean.setenv(name, "some/folder")
    found = settings.read()
    folders = {
        "OCTAVE_CACHE_DIR": (found.cache_dir, tmp_path / "some" / "folder"),
        "XDG_CACHE_HOME": (found.cache_dir, tmp_path / "some" / "folder" / "octave-gen"),
        "ROCM_PATH": (found.rocm_path, tmp_path / "some" / "folder"),
    }
    assert folders[name][0] == folders[name][1]


@pytest.mark.parametrize("name", ["OCTAVE_CACHE_DIR", "XDG_CACHE_HOME", "ROCM_PATH"])
def test_a_folder_that_cannot_be_found(name: str, clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    clean.chdir(gone)
    gone.rmdir()
    for value, reason in (("~nobody.here/x", "home directory"), ("relative", "No such file or directory")):
        clean.setenv(name, value)
        with pytest.raises(OctaveError, match=reason) as caught:
            settings.read()
        assert (caught.value.where, caught.value.exit_code) == (name, WRONG_REQUEST)
        assert repr(value) in caught.value.what


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("clang++ -O1", ("clang++", "-O1")),
        ("'/opt/my tools/g++'  -m64 ", ("/opt/my tools/g++", "-m64")),
        (" \t", ("g++",)),
    ],
)
def test_the_words_of_the_host_compiler(text: str, command: tuple[str, ...], clean: pytest.MonkeyPatch) -> None:
    clean.setenv("CXX", text)
    assert settings.read().host_command == command


@pytest.mark.parametrize("text", ['"x', "g++ 'x", "g++ \\"])
def test_a_host_compiler_that_is_no_command(text: str, clean: pytest.MonkeyPatch) -> None:
    clean.setenv("CXX", text)
    found = settings.read()  # commands that compile nothing do not mind
    with pytest.raises(OctaveError, match="is no command: no ") as caught:
        _ = found.host_command
    assert (caught.value.where, caught.value.exit_code) == ("CXX", WRONG_REQUEST)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("4096", 4096), ("1K", 1024), ("500M", 524_288_000), ("2G", 2_147_483_648), ("2g", 2_147_483_648)],
)
def test_sizes(text: str, size: int) -> None:
    assert settings.parse_size(text, "OCTAVE_CACHE_LIMIT") == size


@pytest.mark.parametrize(
    "text", ["", "0", "0G", "G", "-1", "+1", "1.5G", "2GB", "10T", "2 G", " 2G", "1e9", "lots", "²", "²G", "١"]
)
def test_what_is_no_size_is_refused_by_variable(text: str) -> None:
    with pytest.raises(OctaveError) as caught:
        settings.parse_size(text, "OCTAVE_CACHE_LIMIT")
    assert caught.value.exit_code == WRONG_REQUEST
    assert str(caught.value).startswith(f"OCTAVE_CACHE_LIMIT: {text!r} is no size\n  hint: write it as 500M")


@pytest.mark.parametrize("unit", ["", "G"])
def test_a_size_of_far_too_many_digits(unit: str) -> None:
    assert settings.parse_size("9" * 18 + unit, "OCTAVE_CACHE_LIMIT") >= 10**18 - 1
    with pytest.raises(OctaveError, match=r"'9{18}\.\.\.' is no size"):
        settings.parse_size("9" * 5000 + unit, "OCTAVE_CACHE_LIMIT")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OCTAVE_CACHE_LIMIT", "unlimited"),
        ("OCTAVE_LOCK_TIMEOUT", "soon"),
        ("OCTAVE_LOCK_TIMEOUT", "-1"),
        ("OCTAVE_LOCK_TIMEOUT", "1.5"),
        ("OCTAVE_LOCK_TIMEOUT", "inf"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str, clean: pytest.MonkeyPatch) -> None:
    clean.setenv(name, value)
    with pytest.raises(OctaveError, match=repr(value)) as caught:
        settings.read()
    assert (caught.value.where, caught.value.exit_code) == (name, WRONG_REQUEST)
    assert caught.value.hint


def test_compilers_run_without_what_changes_their_output(clean: pytest.MonkeyPatch) -> None:
    for name in ("CPATH", "SOURCE_DATE_EPOCH", "ROCM_PATH", "HIP_PATH", "CCC_OVERRIDE_OPTIONS"):
        clean.setenv(name, "set")
    clean.setenv("LC_ALL", "de_DE.UTF-8")
    clean.setenv("PATH", "/usr/bin")
    clean.setenv("KEPT", "yes")
    env = settings.tool_environment()
    assert not {"CPATH", "SOURCE_DATE_EPOCH", "ROCM_PATH", "HIP_PATH", "CCC_OVERRIDE_OPTIONS"} & set(env)
    assert (env["LC_ALL"], env["PATH"], env["KEPT"]) == ("C", "/usr/bin", "yes")

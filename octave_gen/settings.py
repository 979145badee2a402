"""The only module that reads the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from octave_gen.errors import wrong_request

VARIABLES: dict[str, str] = {
    "OCTAVE_CACHE_DIR": "folder of the compile cache and of an installed package's builds (default: "
    "`$XDG_CACHE_HOME/octave-gen`, else `~/.cache/octave-gen`)",
    "OCTAVE_CACHE_LIMIT": "size limit of the compile cache, such as `500M` or `2G` (default `2G`)",
    "OCTAVE_LOCK_TIMEOUT": "seconds to wait for another build's lock (default `600`)",
    "CXX": "host C++ compiler (default `g++`)",
    "ROCM_PATH": "ROCm installation that `--compiler rocm` uses (default `/opt/rocm`)",
}

_CHANGES_OUTPUT = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("HIP_PATH", "HIP_DEVICE_LIB_PATH", "ROCM_PATH", "CCC_OVERRIDE_OPTIONS", "SOURCE_DATE_EPOCH"),
)
"""Variables of compilers that this project's builds do not follow."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Settings:
    """What the environment asks for; sizes in bytes, times in seconds."""

    cache_dir: Path
    cache_limit: int
    lock_timeout: float
    host_compiler: str
    rocm_path: Path


def parse_size(text: str, variable: str) -> int:
    """Bytes of ``500M``, ``2G`` or a plain number; raises OctaveError naming the variable."""
    number, unit = (text[:-1], text[-1].upper()) if text and text[-1].isalpha() else (text, "")
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise wrong_request(f"{text!r} is no size", where=variable, hint="write it as 500M, 2G or a number of bytes")
    return int(number) * _UNITS[unit]


def read() -> Settings:
    """The settings of this process; raises OctaveError for a value that cannot be understood."""
    env = os.environ
    base = env.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    timeout = env.get("OCTAVE_LOCK_TIMEOUT") or "600"
    if not (timeout.isascii() and timeout.isdigit()):
        raise wrong_request(f"{timeout!r} is no number of seconds", where="OCTAVE_LOCK_TIMEOUT", hint="write it as 600")
    return Settings(
        cache_dir=Path(env.get("OCTAVE_CACHE_DIR") or Path(base) / "octave-gen").expanduser(),
        cache_limit=parse_size(env.get("OCTAVE_CACHE_LIMIT") or "2G", "OCTAVE_CACHE_LIMIT"),
        lock_timeout=float(timeout),
        host_compiler=env.get("CXX") or "g++",
        rocm_path=Path(env.get("ROCM_PATH") or "/opt/rocm"),
    )


def tool_environment() -> dict[str, str]:
    """The environment for compilers: this process's own, without what would change their output, in the C locale."""
    return {name: value for name, value in os.environ.items() if name not in _CHANGES_OUTPUT} | {"LC_ALL": "C"}

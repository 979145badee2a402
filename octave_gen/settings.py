"""The only module that reads the environment."""

from __future__ import annotations

import os
import shlex
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
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Settings:
    """What the environment asks for; sizes in bytes, times in seconds, folders absolute.

    host_compiler: a command, its words quoted as in a shell.
    """

    cache_dir: Path
    cache_limit: int
    lock_timeout: float
    host_compiler: str
    rocm_path: Path

    @property
    def host_command(self) -> tuple[str, ...]:
        """The words of ``host_compiler``: a program and its options; raises OctaveError for an open quotation."""
        try:
            return tuple(shlex.split(self.host_compiler))
        except ValueError as error:
            raise wrong_request(
                f"{self.host_compiler!r} is no command: {str(error).lower()}", where="CXX", hint="write it as g++"
            ) from error


def parse_size(text: str, variable: str) -> int:
    """Bytes of ``500M``, ``2G`` or a plain number; raises OctaveError naming the variable."""
    number, unit = (text[:-1], text[-1].upper()) if text and text[-1].isalpha() else (text, "")
    digits = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    if unit not in _UNITS or not digits or int(number) == 0:
        shown = text if len(text) <= 2 * _MOST_DIGITS else f"{text[:_MOST_DIGITS]}..."
        raise wrong_request(f"{shown!r} is no size", where=variable, hint="write it as 500M, 2G or a number of bytes")
    return int(number) * _UNITS[unit]


def _folder(text: str, variable: str) -> Path:
    """The absolute path of ``text``, in which ``~`` is a home: tools run in other folders than this process."""
    try:
        return Path(text).expanduser().absolute()
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".").lower()
        raise wrong_request(
            f"the folder {text!r} cannot be found: {reason}", where=variable, hint="write an absolute path"
        ) from error


def read() -> Settings:
    """The settings of this process; raises OctaveError for a value that cannot be understood."""
    env = os.environ
    own = env.get("OCTAVE_CACHE_DIR")
    shared = env.get("XDG_CACHE_HOME") or "~/.cache"
    timeout = env.get("OCTAVE_LOCK_TIMEOUT") or "600"
    if not (timeout.isascii() and timeout.isdigit()):
        raise wrong_request(f"{timeout!r} is no number of seconds", where="OCTAVE_LOCK_TIMEOUT", hint="write it as 600")
    return Settings(
        cache_dir=_folder(own, "OCTAVE_CACHE_DIR") if own else _folder(shared, "XDG_CACHE_HOME") / "octave-gen",
        cache_limit=parse_size(env.get("OCTAVE_CACHE_LIMIT") or "2G", "OCTAVE_CACHE_LIMIT"),
        lock_timeout=float(timeout),
        host_compiler=env.get("CXX", "").strip() or "g++",
        rocm_path=_folder(env.get("ROCM_PATH") or "/opt/rocm", "ROCM_PATH"),
    )


def tool_environment() -> dict[str, str]:
    """The environment for compilers: this process's own, without what would change their output, in the C locale."""
    return {name: value for name, value in os.environ.items() if name not in _CHANGES_OUTPUT} | {"LC_ALL": "C"}

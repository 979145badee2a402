"""A stand-in for libamdhip64, and its use from Python.

Load it in a process of its own: once there, it is the HIP runtime of that process, and cannot be taken away again.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path
from typing import Any

SONAME = "libamdhip64.so.7"


def compile_mock(folder: Path) -> Path:
    """Compiles the mock into ``folder``; a process finds it as HIP once it is loaded, or through LD_LIBRARY_PATH."""
    library = folder / SONAME
    source = Path(__file__).with_name("mock_hip.cpp")
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{SONAME}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    return library


class MockHip:
    """The mock loaded into this process."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.mock_hip_record.restype = ctypes.c_char_p

    def record(self) -> dict[str, Any]:
        """``loads`` (device, entries, code_object_bytes) and ``launches`` (symbol, device, grid, block, lds_bytes,
        stream, kernargs in hex) since the last reset."""
        record: dict[str, Any] = json.loads(self._library.mock_hip_record())
        return record

    def reset(self) -> None:
        self._library.mock_hip_reset()

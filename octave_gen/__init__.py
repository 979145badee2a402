"""octave-gen: GPU kernels that read 3-4 bit KV caches in place, generated from declarative specs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octave_gen.runtime.loading import load as load

__version__ = "0.1.0"

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> object:
    # torch is imported with the first use of what needs it
    if name == "load":
        from octave_gen.runtime.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

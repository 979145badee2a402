"""octave-gen: GPU kernels that read 3-4 bit KV caches in place, generated from declarative specs."""

from __future__ import annotations

__version__ = "0.1.0"

"""The kernel kinds, in the order in which listings show them."""

from __future__ import annotations

from octave_gen.kernels import decode, prefill, reduce, rotate, store
from octave_gen.kernels.base import KernelKind

KINDS: dict[str, KernelKind] = {
    kind.name: kind for kind in (store.KIND, rotate.KIND, decode.KIND, reduce.KIND, prefill.PREFIX, prefill.CHUNK)
}

__all__ = ["KINDS", "KernelKind", "kind_of"]


def kind_of(name: str) -> str | None:
    """The kind whose name begins the name of a variant; None when none does."""
    return next((kind for kind in KINDS if name.startswith(f"{kind}_")), None)

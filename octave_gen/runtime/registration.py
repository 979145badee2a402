"""Defines ``torch.ops.octave.*``: schemas, fakes, CPU and GPU implementations."""

from __future__ import annotations

from collections.abc import Callable

import torch

from octave_gen.errors import OctaveError
from octave_gen.runtime import cpu, gpu

NAMESPACE = "octave"

SCHEMAS: dict[str, str] = {
    "cache_store": (
        "(Tensor key, Tensor value, Tensor(a!) cache, Tensor slot_mapping, Tensor k_signs, Tensor v_signs, int fmt, "
        "str? encoder=None, Tensor? k_center=None) -> ()"
    ),
    "decode": (
        "(Tensor(a!) out, Tensor query, Tensor cache, Tensor block_table, Tensor q_to_req, Tensor q_to_klen, "
        "Tensor(b!) mid_o, Tensor k_signs, Tensor v_signs, float sm_scale, int num_kv_splits, int fmt, "
        "int query_group, bool use_wmma, Tensor? group_starts=None, "
        "str? tier=None) -> ()"
    ),
    "prefill": (
        "(Tensor(a!) out, Tensor q, Tensor k, Tensor v, Tensor cache, Tensor block_table, Tensor cu_seqlens_q, "
        "Tensor seq_lens, int max_query_len, float sm_scale, int fmt, Tensor(b!)? workspace=None, "
        "int num_kv_splits=1, str? tier=None) -> ()"
    ),
    "rotate": "(Tensor(a!) x, Tensor signs, bool k_layout, bool inverse, Tensor? center=None) -> ()",
}
"""The public implementation's argument order; an argument that ours adds comes last and has a default."""

_IMPLEMENTATIONS: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {
    "cache_store": (cpu.cache_store, gpu.cache_store),
    "decode": (cpu.decode, gpu.decode),
    "prefill": (cpu.prefill, gpu.prefill),
    "rotate": (cpu.rotate, gpu.rotate),
}

_library: torch.library.Library | None = None


def register() -> None:
    """Defines the ops; a second call changes nothing.

    Raises OctaveError when something else in this process has defined one of them.
    """
    global _library
    if _library is not None:
        return
    library = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    try:
        for name, schema in SCHEMAS.items():
            library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise OctaveError(
            f"torch.ops.{NAMESPACE} is defined already in this process: {error}",
            hint="import octave_gen once, and no other package that defines these ops",
        ) from error
    for name, (on_cpu, on_gpu) in _IMPLEMENTATIONS.items():
        library.impl(name, torch.no_grad()(on_cpu), "CPU")  # type: ignore[no-untyped-call]
        # ROCm's torch dispatches HIP tensors under this key
        library.impl(name, on_gpu, "CUDA")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"{NAMESPACE}::{name}", _fake, lib=library)
    _library = library


def _fake(*_arguments: object) -> None:
    """All ops write into tensors that the caller owns; there is no output to describe."""

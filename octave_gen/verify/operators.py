"""The operators that checks call, as an executor offers them; here by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from octave_gen import isa
from octave_gen.runtime import launch
from octave_gen.runtime.launch import Launch
from octave_gen.runtime.library import LoadedVariant
from octave_gen.verify.executor import Interpreter, written

_LAUNCHES: dict[str, Callable[..., Launch]] = {
    "store": launch.store_launch,
    "rotate": launch.rotate_launch,
    "decode": launch.decode_launch,
    "reduce": launch.reduce_launch,
    "prefill_prefix": launch.prefill_prefix_launch,
    "prefill_chunk": launch.prefill_chunk_launch,
}


@dataclass(frozen=True)
class Attention:
    """The arguments of decode and of the reduce behind it."""

    out: Tensor
    query: Tensor
    cache: Tensor
    block_table: Tensor
    q_to_req: Tensor
    q_to_klen: Tensor
    mid_o: Tensor
    k_signs: Tensor
    v_signs: Tensor
    sm_scale: float
    num_kv_splits: int
    group_starts: Tensor | None = None


@dataclass(frozen=True)
class Chunked:
    """The arguments of prefill's chunk kernel; ``partials``: what the prefix kernel left."""

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    partials: Tensor
    cu_seqlens_q: Tensor
    seq_lens: Tensor
    max_query_len: int
    sm_scale: float
    num_kv_splits: int


@dataclass(frozen=True)
class Prefill(Chunked):
    """The arguments of both kernels of prefill."""

    cache: Tensor
    block_table: Tensor


class Executor(Protocol):
    """Runs kernels on CPU tensors, whatever it does it with; outputs are in the tensors when a method returns."""

    def cache_store(
        self,
        variant: LoadedVariant,
        key: Tensor,
        value: Tensor,
        cache: Tensor,
        slot_mapping: Tensor,
        k_signs: Tensor,
        v_signs: Tensor,
        k_center: Tensor | None,
    ) -> None: ...

    def rotate(
        self, variant: LoadedVariant, x: Tensor, signs: Tensor, k_layout: bool, inverse: bool, center: Tensor | None
    ) -> None: ...

    def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
        """``merge``: the reduce kernel that writes ``out``; None leaves ``out`` alone."""

    def reduce(
        self, variant: LoadedVariant, mid_o: Tensor, out: Tensor, v_signs: Tensor, num_kv_splits: int
    ) -> None: ...

    def prefill(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Prefill) -> None:
        """``merge``: the chunk kernel that writes ``out``; None leaves ``out`` alone."""

    def prefill_chunk(self, variant: LoadedVariant, arguments: Chunked) -> None: ...


@dataclass
class Interpreted:
    """The interpreter as an :class:`Executor`. ``code_objects``: the bytes that hold each symbol."""

    code_objects: Mapping[str, bytes]
    interpreter: Interpreter = field(default_factory=Interpreter)
    _decoded: dict[bytes, isa.CodeObject] = field(default_factory=dict, repr=False)

    def cache_store(
        self,
        variant: LoadedVariant,
        key: Tensor,
        value: Tensor,
        cache: Tensor,
        slot_mapping: Tensor,
        k_signs: Tensor,
        v_signs: Tensor,
        k_center: Tensor | None,
    ) -> None:
        self._run(
            variant,
            key=key,
            value=value,
            cache=cache,
            slot_mapping=slot_mapping,
            k_signs=k_signs,
            v_signs=v_signs,
            k_center=k_center,
        )

    def rotate(
        self, variant: LoadedVariant, x: Tensor, signs: Tensor, k_layout: bool, inverse: bool, center: Tensor | None
    ) -> None:
        self._run(variant, x=x, signs=signs, k_layout=k_layout, inverse=inverse, center=center)

    def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
        given = dict(vars(arguments))
        out, v_signs = given.pop("out"), given.pop("v_signs")
        self._run(variant, **given)
        if merge is not None:
            self.reduce(merge, arguments.mid_o, out, v_signs, arguments.num_kv_splits)

    def reduce(self, variant: LoadedVariant, mid_o: Tensor, out: Tensor, v_signs: Tensor, num_kv_splits: int) -> None:
        self._run(variant, mid_o=mid_o, out=out, v_signs=v_signs, num_kv_splits=num_kv_splits)

    def prefill(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Prefill) -> None:
        given = dict(vars(arguments))
        cache, block_table = given.pop("cache"), given.pop("block_table")
        own = {name: x for name, x in given.items() if name not in ("k", "v", "out")}
        self._run(variant, **own, cache=cache, block_table=block_table)
        if merge is not None:
            self._run(merge, **given)

    def prefill_chunk(self, variant: LoadedVariant, arguments: Chunked) -> None:
        self._run(variant, **vars(arguments))

    def _run(self, variant: LoadedVariant, **arguments: Any) -> None:
        """The arguments are those of the kind's function in :mod:`octave_gen.runtime.launch`."""
        data = self.code_objects[variant.symbol]
        if data not in self._decoded:
            self._decoded[data] = isa.load(data)
        made = _LAUNCHES[variant.key.kind](variant, **arguments)
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        if 0 not in made.grid:
            self.interpreter.run(self._decoded[data], made, tensors, written(variant.arguments))

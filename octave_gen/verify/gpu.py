"""A GPU as executor: the same cases, through the loaded library and the launch path of the operators.

Inputs are copied to the device with their strides, and outputs back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import torch
from torch import Tensor

from octave_gen.errors import wrong_request
from octave_gen.formats import CACHE_DTYPES
from octave_gen.runtime import gpu, launch
from octave_gen.runtime.dispatch import Registry
from octave_gen.runtime.gpu import Place
from octave_gen.runtime.library import Library, LoadedVariant
from octave_gen.runtime.loading import load
from octave_gen.verify import record
from octave_gen.verify.built import Built
from octave_gen.verify.operators import Attention, Chunked, Prefill


@dataclass(frozen=True)
class Gpu:
    """An :class:`octave_gen.verify.operators.Executor`. ``described``: for the record."""

    library: Library
    place: Place
    device: torch.device
    described: dict[str, str]

    @classmethod
    def of(cls, built: Built) -> Gpu:
        """The current GPU with the library of ``built``; raises OctaveError when there is none of its arch."""
        hint = "without one, verify with --executor interpreter"
        if not torch.cuda.is_available():
            raise wrong_request("there is no GPU here", where="--executor gpu", hint=hint)
        device = torch.device("cuda", torch.cuda.current_device())
        place = gpu.place_of(device)
        if place.arch != built.arch:
            raise wrong_request(
                f"the GPU is a {place.arch}, the library is for {built.arch}",
                where="--executor gpu",
                hint=f"choose its library with --arch {place.arch}",
            )
        library = load(built.arch, out=built.folder.parent)
        described = {
            "name": record.GPU,
            "version": f"torch {torch.__version__}, HIP {torch.version.hip}",
            "device": torch.cuda.get_device_name(device),
            "when": date.today().isoformat(),
        }
        return cls(library, replace(place, registry=Registry([library])), device, described)

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
        inputs = (key, value, slot_mapping, k_signs, v_signs, *_given(k_center))
        with self._moved((cache,), *inputs) as (there, key, value, slot_mapping, k_signs, v_signs, *center):
            given = (key, value, there, slot_mapping, k_signs, v_signs, _fmt(variant), variant.key.encoder)
            gpu.cache_store(*given, *center, place=self.place)

    def rotate(
        self, variant: LoadedVariant, x: Tensor, signs: Tensor, k_layout: bool, inverse: bool, center: Tensor | None
    ) -> None:
        with self._moved((x,), signs, *_given(center)) as (there, words, *centers):
            gpu.rotate(there, words, k_layout, inverse, *centers, place=self.place)

    def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
        """Both kernels, as the operator launches them when it has no others; raises OctaveError without a reduce."""
        given: dict[str, Any] = dict(vars(arguments))
        tensors = [name for name, value in given.items() if isinstance(value, Tensor)]
        outputs = ("out", "mid_o")
        names = [*outputs, *(name for name in tensors if name not in outputs)]
        with self._moved([given[name] for name in outputs], *(given[name] for name in names[2:])) as there:
            given.update(zip(names, there, strict=True))
            given |= {"fmt": _fmt(variant), "query_group": variant.key.query_group}
            these = replace(self.library, variants=(variant, merge) if merge else (variant,))
            place = replace(self.place, registry=Registry([these]))
            gpu.decode(**given, use_wmma=False, tier=variant.key.tier, place=place)

    def reduce(self, variant: LoadedVariant, mid_o: Tensor, out: Tensor, v_signs: Tensor, num_kv_splits: int) -> None:
        """The kernel alone: no operator launches it without decode."""
        with self._moved((out,), mid_o, v_signs) as (there, partials, words), self.place.current():
            launch.submit(
                self.library, launch.reduce_launch(variant, partials, there, words, num_kv_splits), self.place.stream
            )

    def prefill(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Prefill) -> None:
        """Both kernels, as the operator launches them; raises OctaveError when the library has no chunk kernel."""
        given: dict[str, Any] = dict(vars(arguments))
        given["workspace"] = given.pop("partials")
        names = ["out", "workspace", *(name for name in given if isinstance(given[name], Tensor))]
        names = list(dict.fromkeys(names))
        with self._moved([given[name] for name in names[:2]], *(given[name] for name in names[2:])) as there:
            given.update(zip(names, there, strict=True))
            gpu.prefill(**given, fmt=_fmt(variant), tier=variant.key.tier, place=self.place)

    def prefill_chunk(self, variant: LoadedVariant, arguments: Chunked) -> None:
        """The kernel alone: no operator launches it without the prefix's."""
        given: dict[str, Any] = dict(vars(arguments))
        names = ["out", *(name for name, x in given.items() if isinstance(x, Tensor) and name != "out")]
        with self._moved((given["out"],), *(given[name] for name in names[1:])) as there, self.place.current():
            given.update(zip(names, there, strict=True))
            launch.submit(self.library, launch.prefill_chunk_launch(variant, **given), self.place.stream)

    @contextmanager
    def _moved(self, outputs: Any, *inputs: Tensor) -> Iterator[list[Tensor]]:
        """Copies on the device, outputs first; outputs come back when the block ends well."""
        there = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=self.device).copy_(x)
            for x in (*outputs, *inputs)
        ]
        yield there
        for x, moved in zip(outputs, there, strict=False):
            x.copy_(moved)


def _given(tensor: Tensor | None) -> tuple[Tensor, ...]:
    return () if tensor is None else (tensor,)


def _fmt(variant: LoadedVariant) -> int:
    assert variant.key.cache_dtype is not None
    return CACHE_DTYPES[variant.key.cache_dtype].fmt

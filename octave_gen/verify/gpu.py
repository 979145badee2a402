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
    ) -> None:
        inputs = (key, value, slot_mapping, k_signs, v_signs)
        with self._moved((cache,), *inputs) as (there, key, value, slot_mapping, k_signs, v_signs):
            gpu.cache_store(key, value, there, slot_mapping, k_signs, v_signs, _fmt(variant), place=self.place)

    def rotate(self, variant: LoadedVariant, x: Tensor, signs: Tensor, k_layout: bool, inverse: bool) -> None:
        with self._moved((x,), signs) as (there, words):
            gpu.rotate(there, words, k_layout, inverse, place=self.place)

    def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
        """Both kernels, as the operator launches them; raises OctaveError when the library has no reduce."""
        given: dict[str, Any] = dict(vars(arguments))
        tensors = [name for name, value in given.items() if isinstance(value, Tensor)]
        outputs = ("out", "mid_o")
        names = [*outputs, *(name for name in tensors if name not in outputs)]
        with self._moved([given[name] for name in outputs], *(given[name] for name in names[2:])) as there:
            given.update(zip(names, there, strict=True))
            given |= {"fmt": _fmt(variant), "query_group": variant.key.query_group}
            gpu.decode(**given, use_wmma=False, tier=variant.key.tier, place=self.place)

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


def _fmt(variant: LoadedVariant) -> int:
    assert variant.key.cache_dtype is not None
    return CACHE_DTYPES[variant.key.cache_dtype].fmt

"""A variant under check: what its name says about the inputs it takes and the results it owes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import Accuracy
from octave_gen.runtime.checks import QUERY_DTYPES
from octave_gen.runtime.library import PORTABLE, LoadedVariant

_DTYPES = {name: dtype for dtype, name in QUERY_DTYPES.items()}


@dataclass(frozen=True)
class Subject:
    """``merge``: the reduce kernel that decode's partials go to; None: its library has none, or it is no decode."""

    variant: LoadedVariant
    merge: LoadedVariant | None = None

    @property
    def kind(self) -> str:
        return self.variant.key.kind

    @property
    def head_size(self) -> int:
        return self.variant.key.head_size

    @property
    def dtype(self) -> torch.dtype:
        return _DTYPES[self.variant.key.query_dtype]

    @property
    def layout(self) -> SlotLayout:
        """Of the cache that the variant works on."""
        key = self.variant.key
        assert key.cache_dtype is not None
        assert key.slot_bytes is not None
        return SlotLayout.from_slot_bytes(key.head_size, key.slot_bytes, CACHE_DTYPES[key.cache_dtype].fmt)

    @property
    def gqa_group(self) -> int:
        assert self.variant.key.gqa_group is not None
        return self.variant.key.gqa_group

    @property
    def query_group(self) -> int:
        assert self.variant.key.query_group is not None
        return self.variant.key.query_group

    @property
    def accuracy(self) -> Accuracy:
        return KINDS[self.kind].tier(self.variant.key.tier).accuracy


def subjects(variants: Sequence[LoadedVariant]) -> list[Subject]:
    """One for each variant; a decode variant with the reduce that the operator launches behind it, if it is there."""
    merging = {
        (variant.key.head_size, variant.key.query_dtype): variant
        for variant in variants
        if variant.key.kind == "reduce" and variant.key.tier == PORTABLE
    }
    return [
        Subject(variant, merging.get((variant.key.head_size, variant.key.query_dtype)))
        if variant.key.kind == "decode"
        else Subject(variant)
        for variant in variants
    ]

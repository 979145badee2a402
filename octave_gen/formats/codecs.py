"""Every cache format that can be measured, with kernels or without, by name. torch is imported when one is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from octave_gen.errors import did_you_mean, wrong_request
from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.base import CacheDtype
from octave_gen.formats.octave.encoders import ENCODERS, PLAIN
from octave_gen.formats.octave.layout import NAME as OCTAVE

if TYPE_CHECKING:
    from octave_gen.formats.codec import Codec

Factory = Callable[[int, int], "Codec"]


def make(name: str, head_size: int, rotary_dims: int) -> Codec:
    """The codec of that name for one shape of head.

    rotary_dims matters for Octave's block K alone: how many dims its layout keeps at 4 bits. OctaveError for an unknown
    name, with the nearest ones, and for a head that the format cannot hold, with the reason.
    """
    if name not in CODECS:
        known = tuple(CODECS)
        raise wrong_request(f"unknown format {name!r}{did_you_mean(name, known)}", hint=f"known: {', '.join(known)}")
    return CODECS[name](head_size, rotary_dims)


def _octave(name: str, dtype: CacheDtype, encoder: str) -> Factory:
    def create(head_size: int, rotary_dims: int) -> Codec:
        from octave_gen.formats.octave.adapter import OctaveCodec

        return OctaveCodec(name, dtype, head_size, rotary_dims, encoder)

    return create


def _scalar(name: str) -> Factory:
    def create(head_size: int, rotary_dims: int) -> Codec:
        from octave_gen.formats import scalar

        return scalar.create(name, head_size)

    return create


def _turboquant(name: str, k_bits: int, v_bits: int) -> Factory:
    def create(head_size: int, rotary_dims: int) -> Codec:
        from octave_gen.formats import turboquant

        return turboquant.create(name, head_size, k_bits, v_bits)

    return create


def _turbo(name: str, width: int) -> Factory:
    def create(head_size: int, rotary_dims: int) -> Codec:
        from octave_gen.formats import turbo

        return turbo.create(name, head_size, width)

    return create


def _octopus(name: str, nominal_bits: int, residual: bool) -> Factory:
    def create(head_size: int, rotary_dims: int) -> Codec:
        from octave_gen.formats.octopus import codec

        return codec.create(name, head_size, nominal_bits, residual)

    return create


def _all_codecs() -> dict[str, Factory]:
    codecs = {name: _scalar(name) for name in ("fp16", "fp8", "int8")}
    for dtype in CACHE_DTYPES.values():
        if dtype.family == OCTAVE:
            for encoder in ENCODERS:
                name = dtype.name if encoder == PLAIN else f"{dtype.name}+{encoder}"
                codecs[name] = _octave(name, dtype, encoder)
    for label, k_bits, v_bits in (("3bit_nc", 3, 3), ("k3v4_nc", 3, 4), ("4bit_nc", 4, 4), ("k8v4", 8, 4)):
        codecs[f"turboquant_{label}"] = _turboquant(f"turboquant_{label}", k_bits, v_bits)
    for width in (3, 4):
        codecs[f"turbo{width}"] = _turbo(f"turbo{width}", width)
    for suffix in ("", "_qjl"):
        for nominal_bits in (2, 3, 4):
            name = f"octopus_{nominal_bits}{suffix}"
            codecs[name] = _octopus(name, nominal_bits, residual=bool(suffix))
    return codecs


CODECS: dict[str, Factory] = _all_codecs()

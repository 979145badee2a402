"""Stored slots against the reference: equal bytes, or differences that a rounding elsewhere explains.

A kernel that departs from the stated arithmetic may round a value across a threshold that it all but touches, and a
scale to the next fp16. Such differences are allowed, counted and shown; a kernel that follows it has none.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from octave_gen.formats.octave.codebook import LUT_MULT, thresholds
from octave_gen.formats.octave.layout import Region, SlotLayout
from octave_gen.formats.octave.packing import unpack
from octave_gen.formats.octave.rotation import rotate_forward
from octave_gen.verify.compare import Measured, same_bits

NEAR_THRESHOLD: Final = 2.0**-18
"""How near a value may lie to a threshold of another code: in table steps, and relative to a threshold beyond 1."""
CODES: Final = "codes across a threshold"
SCALES: Final = "scales one fp16 apart"


def slots_near(
    found: Tensor, wanted: Tensor, key: Tensor, value: Tensor, layout: SlotLayout, k_signs: Tensor, v_signs: Tensor
) -> Measured:
    """uint8 [..., slot] as stored and as the reference stores key and value [..., head]."""
    if torch.equal(found, wanted):
        return Measured(counts={CODES: 0, SCALES: 0})
    rotated_k = rotate_forward(key.float(), layout.k_block_size, k_signs)
    rotated_v = rotate_forward(value.float(), layout.v_block_size, v_signs)
    near_k = _steps(rotated_k, layout.k_block_size)
    parts = [
        _codes("K codes of 4 bits", found, wanted, near_k[..., : layout.k_nibbles.dims], layout.k_nibbles),
        _codes("K codes of 3 bits", found, wanted, near_k[..., layout.k_nibbles.dims :], layout.k_planes),
        _codes("V codes", found, wanted, _steps(rotated_v, layout.v_block_size), layout.v),
        _scales("K scales", found, wanted, layout.k_scales),
        _scales("V scale", found, wanted, layout.v_scale),
        same_bits("pad bytes", _of(found, layout.pad), _of(wanted, layout.pad)),
    ]
    return Measured.of(parts).joined(Measured(counts={CODES: 0, SCALES: 0}))


def _steps(rotated: Tensor, block_size: int) -> Tensor:
    """Rotated values [..., head] in units of their block's rms, fp64."""
    blocks = rotated.double().reshape(*rotated.shape[:-1], -1, block_size)
    rms = blocks.square().mean(-1, keepdim=True).sqrt()
    return (blocks / rms).reshape(rotated.shape)


def _codes(what: str, found: Tensor, wanted: Tensor, steps: Tensor, region: Region) -> Measured:
    """``steps`` [..., region.dims]: the values behind the codes, in units of their block's rms."""
    if not region.dims:
        return Measured()
    stored, right = (unpack(_of(slots, region), region.bits).to(torch.int64) for slots in (found, wanted))
    limits = torch.tensor(thresholds(region.bits), dtype=torch.float64)
    between = limits[torch.minimum(stored, right).clamp(max=len(limits) - 1)]
    distance = (steps * LUT_MULT[region.bits] - between).abs()
    near = ((stored - right).abs() == 1) & (distance <= NEAR_THRESHOLD * between.abs().clamp(min=1.0))
    crossed = (stored != right) & near
    return same_bits(what, torch.where(crossed, right, stored), right).joined(
        Measured(counts={CODES: int(crossed.sum())})
    )


def _scales(what: str, found: Tensor, wanted: Tensor, region: Region) -> Measured:
    stored, right = (_of(slots, region).contiguous().view(torch.float16) for slots in (found, wanted))
    apart = (stored.view(torch.int16).int() - right.view(torch.int16).int()).abs()
    next_to = (apart == 1) & stored.isfinite() & (stored >= 0)
    return same_bits(what, torch.where(next_to, right, stored), right).joined(
        Measured(counts={SCALES: int(next_to.sum())})
    )


def _of(slots: Tensor, region: Region) -> Tensor:
    return slots[..., region.offset : region.end]

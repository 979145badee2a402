"""cache_store: the bytes of every slot against the reference, and that nothing else of the cache is touched."""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.formats.octave.rotation import centered
from octave_gen.reference.store import cache_store
from octave_gen.verify.cases import StoreCase
from octave_gen.verify.compare import Measured, same_bits
from octave_gen.verify.inputs import center, edge_vectors, gaussian, generator, place, place_pair, signs
from octave_gen.verify.operators import Executor
from octave_gen.verify.slots import slots_near
from octave_gen.verify.subject import Subject

_UNTOUCHED = 0xA5
_SPARE_BLOCKS = 2
_OUT_OF = 5


def check(subject: Subject, case: StoreCase, seed: int, executor: Executor) -> Measured:
    """Runs the case and compares."""
    layout, head = subject.layout, subject.head_size
    key, value = (_vectors(subject, case, seed, role) for role in ("key", "value"))
    k_signs, v_signs = (signs(seed, role, head, case.signs) for role in ("k_signs", "v_signs"))
    slots = _slots(case, seed)
    blocks = -(-case.tokens // case.block_size) + _SPARE_BLOCKS
    shape = (blocks, case.heads, case.block_size, layout.slot_bytes)
    wanted = torch.full(shape, _UNTOUCHED, dtype=torch.uint8)
    cache = place(wanted, case.memory, order=(0, 2, 1), pad=12, dims=2)
    placed_key, placed_value = place_pair(key, value, case.memory)
    k_center = center(seed, case.heads, head, subject.dtype, case.center)
    placed = (placed_key, placed_value, cache, place(slots, "dense"))
    executor.cache_store(subject.variant, *placed, k_signs, v_signs, k_center)
    cache_store(key, value, wanted, slots, layout, k_signs, v_signs, subject.encoder, k_center)
    kept = slots >= 0
    at = slots[kept]
    found_slots, wanted_slots = (_gather(x, at) for x in (cache, wanted))
    stored = (centered(key[kept], k_center), value[kept])
    measured = slots_near(found_slots, wanted_slots, *stored, layout, k_signs, v_signs)
    rest, wanted_rest = cache.clone(), wanted.clone()
    for x in (rest, wanted_rest):
        x[at // case.block_size, :, at % case.block_size] = 0
    return measured.joined(same_bits("bytes of slots that are not stored to", rest, wanted_rest))


def _vectors(subject: Subject, case: StoreCase, seed: int, role: str) -> Tensor:
    shape = (case.tokens, case.heads, subject.head_size)
    if case.values == "gaussian":
        return gaussian(seed, role, shape, subject.dtype)
    return edge_vectors(seed, role, case.tokens * case.heads, subject.head_size, subject.dtype).reshape(shape)


def _slots(case: StoreCase, seed: int) -> Tensor:
    """int64 [tokens]: distinct slots in random order, and -1 for the tokens that are skipped."""
    room = case.block_size * (-(-case.tokens // case.block_size) + _SPARE_BLOCKS)
    slots = torch.randperm(room, generator=generator(seed, "slots"))[: case.tokens]
    slots[torch.arange(case.tokens) % _OUT_OF < case.skipped] = -1
    return slots


def _gather(cache: Tensor, slots: Tensor) -> Tensor:
    """[len(slots), heads, slot bytes]."""
    return cache[slots // cache.shape[2], :, slots % cache.shape[2]]

"""The Octave slot: the bytes of one token and kv head, written once for Python and C++. Needs no torch.

    [K, 4-bit codes][K, 3-bit codes][V codes][fp16 scales: K blocks in order, then V][zero pad]

Block K rotates 64 dims at a time, keeps the rotary dims at 4 bits and the rest at 3, and has one scale per 64 dims; its
slots are aligned to 8 bytes. Compact K rotates the whole head, has codes of one width and one scale, is aligned to 4
bytes, and does not depend on the rotary dims.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from octave_gen.errors import OctaveError
from octave_gen.formats.base import CacheDtype, render_c_ints
from octave_gen.formats.bytemap import Field

BLOCK_DIMS = 64  # dims of one Hadamard block of block K; head_size and rotary_dims are multiples of it
MAX_HEAD_SIZE = 512  # the sign words the format defines end here
CODE_BITS = (3, 4)
SCALE_BYTES = 2  # fp16
NAME = "octave"
COMPACT_FLAG = 16  # fmt = v_bits + 16 * compact + 32 * (4-bit K throughout)
K4_FLAG = 32
CACHE_DTYPES = (
    CacheDtype("octave_k3v3_compact", NAME, 3 + COMPACT_FLAG),
    CacheDtype("octave_k3v3", NAME, 3),
    CacheDtype("octave_k3v4_compact", NAME, 4 + COMPACT_FLAG),
    CacheDtype("octave_k4v3_compact", NAME, 3 + COMPACT_FLAG + K4_FLAG),
    CacheDtype("octave_k3v4", NAME, 4),
)
FMTS = tuple(sorted(dtype.fmt for dtype in CACHE_DTYPES))


@dataclass(frozen=True)
class Region:
    """A run of bytes in a slot: `dims` codes of `bits` bits each (dims and bits are 0 for padding)."""

    offset: int
    size: int
    dims: int = 0
    bits: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.size

    @property
    def high_plane(self) -> int:
        """Byte offset of the 1-bit plane of 3-bit codes, behind the 2-bit plane; the region's end for other widths."""
        return self.offset + self.dims // 4 if self.bits == 3 else self.end


def whole_block_dims(head_size: int) -> int:
    """Dims of one transform where the whole head is rotated: the head, or 64 when it is no power of two."""
    return head_size if head_size & (head_size - 1) == 0 else BLOCK_DIMS


def geometry_problem(head_size: int, rotary_dims: int, compact: bool) -> str | None:
    """Why no slot can hold this shape, or None. Compact asks the same of rotary_dims, though its bytes ignore them."""
    if head_size % BLOCK_DIMS or not BLOCK_DIMS <= head_size <= MAX_HEAD_SIZE:
        return f"head_size {head_size} is not a multiple of {BLOCK_DIMS} from {BLOCK_DIMS} to {MAX_HEAD_SIZE}"
    if rotary_dims % BLOCK_DIMS or not BLOCK_DIMS <= rotary_dims <= head_size:
        return f"rotary_dims {rotary_dims} is not a multiple of {BLOCK_DIMS} from {BLOCK_DIMS} to head_size {head_size}"
    if compact and whole_block_dims(head_size) != head_size:
        return f"compact K rotates the whole head by one Walsh-Hadamard transform, and {head_size} is no power of two"
    return None


@dataclass(frozen=True)
class SlotLayout:
    """Byte layout of a slot. k_bits: of K's codes; block K's first `rotary_dims` have 4. Compact K: rotary_dims 0.

    Equal slots are equal objects, wherever the layout came from: a spec or the slot size of a cache.
    """

    head_size: int
    rotary_dims: int
    compact: bool
    k_bits: int
    v_bits: int

    def __post_init__(self) -> None:
        if self.k_bits not in CODE_BITS or self.v_bits not in CODE_BITS:
            raise OctaveError(f"codes have 3 or 4 bits, got k_bits {self.k_bits} and v_bits {self.v_bits}")
        _check_fmt(self.fmt)
        if self.compact and self.rotary_dims:
            raise OctaveError(f"compact K stores all dims alike, got rotary_dims {self.rotary_dims}", hint="pass 0")
        rotary_dims = BLOCK_DIMS if self.compact else self.rotary_dims
        problem = geometry_problem(self.head_size, rotary_dims, self.compact)
        if problem:
            raise OctaveError(problem)

    @classmethod
    def of(cls, head_size: int, rotary_dims: int, fmt: int) -> SlotLayout:
        """The layout of a model's shape: rotary_dims are the model's, for compact K too."""
        _check_fmt(fmt)
        compact = is_compact(fmt)
        problem = geometry_problem(head_size, rotary_dims, compact)
        if problem:
            raise OctaveError(problem)
        k_bits = 4 if fmt & K4_FLAG else 3
        return cls(head_size, 0 if compact else rotary_dims, compact, k_bits, fmt % COMPACT_FLAG)

    @classmethod
    def from_slot_bytes(cls, head_size: int, slot_bytes: int, fmt: int) -> SlotLayout:
        """The layout whose slots have this size, as the ops infer it from a cache's last dimension.

        Never ambiguous: 64 more rotary dims make a slot exactly 8 bytes longer. OctaveError names the sizes that exist.
        """
        possible = [cls.of(head_size, BLOCK_DIMS, fmt)]
        if not possible[0].compact:
            possible += [cls.of(head_size, r, fmt) for r in range(2 * BLOCK_DIMS, head_size + 1, BLOCK_DIMS)]
        for layout in possible:
            if layout.slot_bytes == slot_bytes:
                return layout
        sizes = ", ".join(
            str(p.slot_bytes) if p.compact else f"{p.slot_bytes} (rotary {p.rotary_dims})" for p in possible
        )
        raise OctaveError(
            f"no slot of head size {head_size} and fmt {fmt} has {slot_bytes} bytes", hint=f"possible: {sizes}"
        )

    @property
    def fmt(self) -> int:
        return self.v_bits + COMPACT_FLAG * self.compact + K4_FLAG * (self.k_bits == 4)

    @property
    def k_block_size(self) -> int:
        """Dims that K rotates together and that share a scale."""
        return self.head_size if self.compact else BLOCK_DIMS

    @property
    def k_blocks(self) -> int:
        return self.head_size // self.k_block_size

    @property
    def v_block_size(self) -> int:
        """Dims that V rotates together; V has one scale in any case."""
        return whole_block_dims(self.head_size)

    @property
    def slot_align(self) -> int:
        return 4 if self.compact else 8

    @cached_property
    def k_nibbles(self) -> Region:
        """K at 4 bits: of block K the rotary dims, of compact K all dims or none."""
        return _codes(0, self.head_size if self.k_bits == 4 else self.rotary_dims, 4)

    @cached_property
    def k_planes(self) -> Region:
        """The rest of K, at 3 bits."""
        return _codes(self.k_nibbles.end, self.head_size - self.k_nibbles.dims, 3)

    @cached_property
    def v(self) -> Region:
        return _codes(self.k_planes.end, self.head_size, self.v_bits)

    @cached_property
    def k_scales(self) -> Region:
        return Region(self.v.end, SCALE_BYTES * self.k_blocks, self.k_blocks, 8 * SCALE_BYTES)

    @cached_property
    def v_scale(self) -> Region:
        return Region(self.k_scales.end, SCALE_BYTES, 1, 8 * SCALE_BYTES)

    @cached_property
    def pad(self) -> Region:
        return Region(self.v_scale.end, -self.v_scale.end % self.slot_align)

    @property
    def slot_bytes(self) -> int:
        return self.pad.end

    def byte_map(self) -> tuple[Field, ...]:
        """The slot's bytes in order, planes of 3-bit codes apart; fields of no bytes included."""
        return (
            *_code_fields("K codes", self.k_nibbles, 0),
            *_code_fields("K codes", self.k_planes, self.k_nibbles.dims),
            *_code_fields("V codes", self.v, 0),
            Field(
                f"K scales, fp16, one for each {BLOCK_DIMS} dims" if self.k_blocks > 1 else "K scale, fp16",
                self.k_scales.offset,
                self.k_scales.size,
                self.k_scales.bits,
            ),
            Field("V scale, fp16", self.v_scale.offset, self.v_scale.size, self.v_scale.bits),
            Field("zero", self.pad.offset, self.pad.size),
        )

    def template_constants(self) -> dict[str, int]:
        """Offsets in bytes from the slot's start, sizes in dims or bytes as named; the order is fixed."""
        return {
            "head_size": self.head_size,
            "compact": int(self.compact),
            "fmt": self.fmt,
            "k_nibble_dims": self.k_nibbles.dims,
            "v_bits": self.v_bits,
            "k_block_size": self.k_block_size,
            "k_blocks": self.k_blocks,
            "v_block_size": self.v_block_size,
            "k_nibble_offset": self.k_nibbles.offset,
            "k_plane_offset": self.k_planes.offset,
            "k_high_plane": self.k_planes.high_plane,
            "v_offset": self.v.offset,
            "v_high_plane": self.v.high_plane,
            "k_scale_offset": self.k_scales.offset,
            "v_scale_offset": self.v_scale.offset,
            "pad_offset": self.pad.offset,
            "slot_bytes": self.slot_bytes,
            "slot_align": self.slot_align,
        }

    def c_constants(self) -> str:
        """`static constexpr int kSlotBytes = 248;` and so on: members of a C++ struct, one a line."""
        return render_c_ints(self.template_constants())


def is_compact(fmt: int) -> bool:
    return bool(fmt & COMPACT_FLAG)


def _check_fmt(fmt: int) -> None:
    if fmt not in FMTS:
        raise OctaveError(f"no Octave cache dtype has fmt {fmt}", hint=f"known: {', '.join(map(str, FMTS))}")


def _codes(offset: int, dims: int, bits: int) -> Region:
    return Region(offset, dims * bits // 8, dims, bits)


def _code_fields(what: str, region: Region, first_dim: int) -> tuple[Field, ...]:
    what = f"{what}, dims {first_dim}-{first_dim + region.dims - 1}"
    if region.bits != 3:
        return (Field(what, region.offset, region.size, region.bits),)
    low, high = region.high_plane - region.offset, region.end - region.high_plane
    return Field(f"{what}: low 2 bits", region.offset, low, 2), Field(f"{what}: high bit", region.high_plane, high, 1)

"""Octave cache dtypes as a `formats.codec.Codec`: the quantizer, and back to the model's own space."""

from __future__ import annotations

from torch import Tensor

from octave_gen.formats.base import CacheDtype
from octave_gen.formats.octave.codec import dequantize, quantize
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.formats.octave.rotation import rotate_inverse


class OctaveCodec:
    """Slots as `layout` describes them: rotary_dims is what block K keeps at 4 bits, up to the whole head.

    It need not be what the model rotates: a full-rotary model may be measured with 64. Decoded K and V are dequantized
    and rotated back in fp32.
    """

    def __init__(self, name: str, dtype: CacheDtype, head_size: int, rotary_dims: int, encoder: str) -> None:
        self.name = name
        self.layout = SlotLayout.of(head_size, rotary_dims, dtype.fmt)
        self._encoder = encoder

    @property
    def head_size(self) -> int:
        return self.layout.head_size

    @property
    def slot_bytes(self) -> int:
        return self.layout.slot_bytes

    def encode(self, key: Tensor, value: Tensor) -> Tensor:
        """key, value: fp16, bf16 or fp32 [..., head_size] -> uint8 [..., slot_bytes]; OctaveError for others."""
        return quantize(key, value, self.layout, encoder=self._encoder)

    def decode(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 [..., slot_bytes] -> K and V, fp32 [..., head_size] each; OctaveError for others."""
        k, v = dequantize(slots, self.layout)
        return rotate_inverse(k, self.layout.k_block_size), rotate_inverse(v, self.layout.v_block_size)

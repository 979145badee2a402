"""The sign flips in front of the Octave transform, as bit words. Needs no torch.

Bit i of word w set means that dim 32w+i changes its sign. Each bit is bit 0 of one raw 32-bit output of the Mersenne
Twister MT19937 seeded with SIGN_SEED. K, V, every head and every layer share the vector; a shorter head takes a
prefix.
"""

from __future__ import annotations

from octave_gen.errors import OctaveError

SIGN_SEED = 0x5E17
WORD_DIMS = 32

# fmt: off
SIGN_WORDS = (
    0x82C270EB, 0x9E0D4635, 0x41D23DB1, 0x68C675E6, 0xF687E132, 0xB5CABDC3, 0x1E0AC1A1, 0x74AFC721,
    0x53685D96, 0x027DDB37, 0xE256F797, 0x05CB43D3, 0x81A5B38C, 0xEB391759, 0xB4510DBF, 0x20784184,
)
# fmt: on


def sign_words(head_size: int) -> tuple[int, ...]:
    """The unsigned words of a head, head_size/32 of them; OctaveError beyond the 512 dims that are defined."""
    words, rest = divmod(head_size, WORD_DIMS)
    if rest or not 0 < words <= len(SIGN_WORDS):
        raise OctaveError(
            f"no sign words for head_size {head_size}",
            hint=f"multiples of {WORD_DIMS} up to {WORD_DIMS * len(SIGN_WORDS)}",
        )
    return SIGN_WORDS[:words]

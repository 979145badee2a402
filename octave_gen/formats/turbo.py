"""turbo3 and turbo4: TurboQuant as the blocks of a llama.cpp fork, GGML types 41 and 42.

K and V alike. A head is cut into chunks of 128 values; a chunk is normalized on its own, rotated by the Hadamard
transform over sqrt(128) without signs, and stored as 4 blocks of 32 values:

    block: [norm fp16][32 codes], 2 + 12 bytes for turbo3, 2 + 16 bytes for turbo4

The norm is that of the whole chunk, the same in its 4 blocks. A code is the nearest centroid; of two equally near ones
the lower. Codes ascend with the value and are a little-endian bit stream, so of turbo4 element 2j is a low nibble.
The centroids are the fork's own numbers: Lloyd-Max ones for a coordinate of a unit vector, symmetric to 3e-7 (turbo3)
and 4e-5 (turbo4) only. Decoded vectors are not renormalized.

Per head and value: turbo3 3.5 bits, turbo4 4.5. From the public description of the types. The fp16 cast of a norm does
not saturate: beyond 65504 it becomes infinite. A NaN or an infinity spoils its own chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.formats import bits
from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.pair import PairCodec, check_head, from_bytes, look_up, norm_and_direction, to_bytes

CHUNK = 128
BLOCK = 32
# fmt: off
CENTROIDS = {
    3: (-.1883972972, -.1181399059, -.0665857641, -.0216044751, .0216041461, .0665854520, .1181396281, .1883970748),
    4: (-.2376389871, -.1808080141, -.1417777640, -.1102646123, -.0828112376, -.0577640422, -.0341540905, -.0113168380,
        .0112761586, .0341139667, .0577250301, .0827738972, .1102295202, .1417455465, .1807794468, .2376153882),
}
# fmt: on


class ChunkCode:
    """The chunks of a head, each as four blocks."""

    def __init__(self, head_size: int, width: int) -> None:
        self.head_size = head_size
        self.width = width
        self.block_bytes = 2 + bits.packed_bytes(BLOCK, width)
        self.size = head_size // BLOCK * self.block_bytes
        # midpoints of fp32 centroids are exact in fp64, and so is the comparison with them
        self.centroids = torch.tensor(CENTROIDS[width], dtype=torch.float32)
        self.midpoints = (self.centroids[1:].double() + self.centroids[:-1].double()) / 2

    def encode(self, x: Tensor) -> Tensor:
        leading, chunks = x.shape[:-1], self.head_size // CHUNK
        norm, direction = norm_and_direction(x.reshape(*leading, chunks, CHUNK))
        codes = self.nearest(walsh_hadamard(direction))
        packed = bits.pack(codes.reshape(*leading, chunks, CHUNK // BLOCK, BLOCK), self.width)
        norms = to_bytes(norm.to(torch.float16)).unsqueeze(-2).expand(*packed.shape[:-1], 2)
        return torch.cat((norms, packed), dim=-1).reshape(*leading, self.size)

    def decode(self, packed: Tensor) -> Tensor:
        leading, chunks = packed.shape[:-1], self.head_size // CHUNK
        blocks = packed.reshape(*leading, chunks, CHUNK // BLOCK, self.block_bytes)
        levels = look_up(self.centroids, bits.unpack(blocks[..., 2:], BLOCK, self.width))
        directions = walsh_hadamard(levels.reshape(*leading, chunks, CHUNK))
        norms = from_bytes(blocks[..., 0, :2], torch.float16)
        return (directions * norms).reshape(*leading, self.head_size)

    def nearest(self, y: Tensor) -> Tensor:
        """Codes of fp32 values: int64 of the same shape; the last code for a NaN."""
        return torch.bucketize(y.double(), self.midpoints)


def create(name: str, head_size: int, width: int) -> PairCodec:
    """width 3 or 4; OctaveError for heads that are no multiple of 128."""
    check_head(name, head_size, head_size % CHUNK == 0, f"the type works in chunks of {CHUNK} values")
    code = ChunkCode(head_size, width)
    return PairCodec(name, head_size, code, code)

"""What prefill's tiers for matrix cores share: which kernel has which name, grid and block sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, Shape, Tier, head_size_in

BLOCK_SIZE_MULTIPLE = 16


@dataclass(frozen=True)
class MatrixTiers:
    """Both kernels of the tier ``name``. rows: query rows of a workgroup; prefix, chunk: what each of them computes."""

    name: str
    waves: int
    rows: int
    head_sizes: Collection[int]
    constants: Callable[[Shape, Arch], dict[str, int]]
    prefix: Accuracy
    chunk: Accuracy

    def prefix_tier(self, arguments: tuple[Argument, ...]) -> Tier:
        """The tier of prefill_prefix."""
        return self._tier("prefill_prefix", arguments, "request_splits", self.prefix, BLOCK_SIZE_MULTIPLE)

    def chunk_tier(self, arguments: tuple[Argument, ...]) -> Tier:
        """The tier of prefill_chunk."""
        return self._tier("prefill_chunk", arguments, "requests", self.chunk, 1)

    def _tier(self, kind: str, arguments: tuple[Argument, ...], last: str, accuracy: Accuracy, multiple: int) -> Tier:
        grid = (Extent("query_rows", self.rows), Extent("kv_heads"), Extent(last))
        return Tier(
            self.name,
            f"{kind}_{self.name}.hip.j2",
            arguments,
            geometry=lambda shape, arch: Geometry(self.waves * arch.wave_size, grid),
            constants=self.constants,
            refuse=lambda shape, arch: head_size_in(self.head_sizes, self.name, shape),
            accuracy=accuracy,
            block_size_multiple=multiple,
        )

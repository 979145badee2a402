"""Random values and edge values, and the memory that they lie in. A tensor depends on the seed and its role alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from octave_gen.formats.octave.rotation import sign_tensor
from octave_gen.formats.octave.signs import WORD_DIMS
from octave_gen.verify.arena import allocate, far_strides

POISON = 0xFF
"""The byte of everything that no kernel may read: a scale of these is NaN."""
STALE = 0x7B
"""The byte of every other slot that no query sees, as tokens of another request may leave it: a scale of 61280."""
_LARGEST_HALF = 65504.0


def generator(seed: int, role: str) -> torch.Generator:
    """The source of randomness for one role: a tensor's values do not hang on which tensors were made before."""
    digest = hashlib.sha256(f"{seed} {role}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


def gaussian(seed: int, role: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """N(0, 1), rounded to dtype."""
    return torch.randn(*shape, generator=generator(seed, role)).to(dtype)


def scaled(values: Tensor, scale: int) -> Tensor:
    """Larger values of the same dtype; none beyond fp16."""
    return values if scale == 1 else (values.float() * scale).clamp(-_LARGEST_HALF, _LARGEST_HALF).to(values.dtype)


def signs(seed: int, role: str, head_size: int, choice: str) -> Tensor:
    """Sign words int32 [head / 32]: the format's ``own``, or ``random`` ones."""
    if choice == "own":
        return place(sign_tensor(head_size), "dense")
    made = torch.randint(-(2**31), 2**31, (head_size // WORD_DIMS,), generator=generator(seed, role))
    return place(made.to(torch.int32), "dense")


def edge_vectors(seed: int, role: str, count: int, head_size: int, dtype: torch.dtype) -> Tensor:
    """[count, head] of dtype: each kind of edge in turn, a Gaussian of random magnitude between any two.

    Zero, ones, 65504, the largest finite value, the smallest denormal in one dim or random ones in all, magnitudes
    from 1e-20 to 1e19 (as far as dtype has them), +-1 at random, NaN, Inf and -Inf in one dim, huge beside
    tiny, sparse ones.
    """
    source = generator(seed, role)

    def normal() -> Tensor:
        return torch.randn(head_size, generator=source)

    def one(value: float, rest: Tensor) -> Tensor:
        rest[int(torch.randint(head_size, (), generator=source))] = value
        return rest

    largest = torch.finfo(dtype).max
    edges = [
        torch.zeros(head_size),
        one(torch.nan, normal()),
        torch.full((head_size,), 65504.0),
        one(torch.inf, normal()),
        normal() * 2.0**-20,
        one(torch.finfo(dtype).smallest_normal / 64, torch.zeros(head_size)),
        torch.full((head_size,), largest),
        normal() * 2e4,
        torch.full((head_size,), 1e-6),
        normal().sign(),
        one(-torch.inf, torch.zeros(head_size)),
        one(largest, normal()),
        normal() * 1e-20,
        normal() * 1e-38,
        normal() * 1e18,
        normal() * 1e19,
        torch.ones(head_size),
        one(1.0, torch.zeros(head_size)),
        # Half of the rotated values are so small beside the others that their quotient by the rms rounds to 0.
        torch.cat([torch.full((2,), 2.0**60), normal()[2:] * 1e-30]),
        # Many rotated values are half the rms, which is a threshold.
        (torch.rand(head_size // 64, 64, generator=source).argsort(-1) < 16).float().flatten(),
        -torch.zeros(head_size),
    ]
    magnitude = 10.0 ** (torch.rand(count, 1, generator=source) * 8 - 4)
    made = torch.randn(count, head_size, generator=source) * magnitude
    for i in range(0, count, 2):
        made[i] = edges[i // 2 % len(edges)]
    return made.clamp(-largest, largest).where(made.isfinite(), made).to(dtype)


def center(seed: int, heads: int, head_size: int, dtype: torch.dtype, choice: str) -> Tensor | None:
    """[heads, head] of dtype; None where it is ``absent``. ``gaussian``: N(0, 1). ``edges``: heads in turn N(0, 1), NaN
    in one dim, 65504, denormal, -Inf in one dim, zero."""
    if choice == "absent":
        return None
    made = gaussian(seed, "center", (heads, head_size), dtype)
    if choice == "edges":
        made[1::6, 3] = torch.nan
        made[2::6] = _LARGEST_HALF
        made[3::6] *= 2.0**-20
        made[4::6, -1] = -torch.inf
        made[5::6] = 0.0
    return place(made, "dense")


def place(values: Tensor, memory: str, *, order: Sequence[int] | None = None, pad: int = 5, dims: int = 1) -> Tensor:
    """A copy of ``values`` in memory of its own; its last dim is dense.

    ``strided``: ``pad`` more elements than it needs between any two entries of another dim, dims nested as ``order``
    says (outermost first; None: as they are), and POISON in between. ``far``: the first ``dims`` dims reach beyond
    2**31 bytes and 4 GiB.
    """
    made = allocate(values.shape, values.dtype, strides=_strides(values, memory, order, pad, dims))
    if memory == "strided" and values.numel():
        extent = 1 + sum(stride * (size - 1) for stride, size in zip(made.stride(), made.shape, strict=True))
        made.as_strided((extent,), (1,)).view(torch.uint8).fill_(POISON)
    made.copy_(values)
    return made


def _strides(values: Tensor, memory: str, order: Sequence[int] | None, pad: int, dims: int) -> list[int] | None:
    if memory == "dense" or values.dim() == 1:
        return None
    extra = pad if memory == "strided" else 0
    strides = [1] * values.dim()
    step = values.shape[-1] + extra
    for dim in reversed(order if order is not None and extra else range(values.dim() - 1)):
        strides[dim] = step
        step = step * values.shape[dim] + extra
    return far_strides(values.shape, values.element_size(), strides, dims) if memory == "far" else strides


def place_pair(first: Tensor, second: Tensor, memory: str, *, pad: int = 5) -> tuple[Tensor, Tensor]:
    """Two tensors of one shape [tokens, heads, head]; ``strided``: as heads of one buffer, as a fused projection makes
    them. pad: as in :func:`place`."""
    if memory != "strided":
        return place(first, memory), place(second, memory)
    heads = first.shape[1]
    gap = torch.full_like(first[:, :1], torch.nan)
    both = place(torch.cat([first, gap, second], dim=1), memory, pad=pad)
    return both[:, :heads], both[:, heads + 1 :]

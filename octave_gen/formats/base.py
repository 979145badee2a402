"""The interface between a cache format family and the rest of the project. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class CacheDtype:
    """One cache dtype of a family: what a spec and a serving engine call it, and the code its ops take."""

    name: str
    family: str
    fmt: int  # the `fmt` argument of the ops; unique within the family


class Layout(Protocol):
    """Where the bytes of one slot (one token, one kv head) lie."""

    @property
    def head_size(self) -> int: ...

    @property
    def rotary_dims(self) -> int: ...

    @property
    def fmt(self) -> int: ...

    @property
    def slot_bytes(self) -> int: ...

    def c_constants(self) -> str:
        """The layout's numbers as members of a C++ struct, in a fixed order."""


class Family(Protocol):
    """A cache format: its dtypes, which shapes it can hold, its layout and its constants.

    The family's PyTorch quantizer is a module of its own (`codec`), so that nothing here imports torch.
    """

    @property
    def name(self) -> str: ...

    @property
    def cache_dtypes(self) -> tuple[CacheDtype, ...]: ...

    @property
    def encoders(self) -> tuple[str, ...]:
        """How scales and codes can be chosen, by name; slots do not tell which encoder wrote them."""

    @property
    def default_encoder(self) -> str:
        """One of `encoders`, for a caller that names none."""

    @property
    def block_dims(self) -> int:
        """head_size and rotary_dims are multiples of it."""

    @property
    def max_head_size(self) -> int: ...

    def layout(self, dtype: CacheDtype, head_size: int, rotary_dims: int) -> Layout:
        """The slot layout of a shape; OctaveError when the bytes cannot be laid out."""

    def layout_of_slot(self, head_size: int, slot_bytes: int, fmt: int) -> Layout:
        """The layout that a cache of this slot size has; OctaveError when there is none."""

    def refuse(self, head_size: int, rotary_dims: int, dtype: CacheDtype) -> str | None:
        """Why kernels are not offered for a shape, or None. Stricter than `layout`."""

    def c_constants(self) -> str:
        """The family's numbers and tables as members of a C++ struct, in a fixed order."""

    def encoder_constants(self, encoder: str) -> str:
        """The same of what one of `encoders` needs besides; may be empty."""


def c_name(name: str) -> str:
    """`slot_bytes` as C++ writes it: `kSlotBytes`."""
    return "k" + "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def render_c_ints(constants: Mapping[str, int]) -> str:
    """One `static constexpr int kName = value;` line per entry, in the mapping's order; ends with a newline."""
    return "".join(f"static constexpr int {c_name(name)} = {value};\n" for name, value in constants.items())

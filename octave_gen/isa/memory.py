"""The sparse 64-bit address space that kernels read and write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octave_gen.errors import OctaveError
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.types import Array

_FIRST = 1 << 44
_SPACING = 1 << 34
"""Regions whose address the memory chooses lie this far apart, so that neither a small offset nor one that gained or
lost a few times 4 GiB leads from one to another."""
_PAGE = 1 << 12
_LIMIT = 1 << 48
_UNSIGNED: dict[int, str] = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_VALID_WORDS: dict[int, int] = {1: 0x01, 2: 0x0101, 4: 0x01010101}


class ByteStore:
    """Bytes that can be gathered and scattered at any offsets, in units of 1, 2, 4, 8, 12 or 16.

    Units of a power of two go through an aligned view when all offsets of an access are aligned; it is several times as
    fast as the view that starts at every byte.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        self._views: dict[int, tuple[NDArray[Any] | None, NDArray[Any]]] = {}

    def _view(self, size: int) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        found = self._views.get(size)
        if found is None:
            count = max(len(self.data) - size + 1, 0)
            dtype = np.dtype(_UNSIGNED.get(size, f"V{size}"))
            every = np.ndarray((count,), dtype, self.data.data, 0, (1,)) if count else np.empty(0, dtype)
            aligned = None
            if size in (4, 8, 16) and self.data.ctypes.data % size == 0:
                whole = self.data[: len(self.data) // size * size]
                aligned = whole.view(np.complex128 if size == 16 else dtype)
            found = self._views[size] = (aligned, every)
        return found

    def gather(self, offsets: NDArray[np.int64], size: int) -> Array:
        """Units at ``offsets``: unsigned integers [n] below 8 bytes, else uint32 [n, words]."""
        aligned, every = self._view(size)
        if aligned is not None and not (offsets & (size - 1)).any():
            units = aligned[offsets >> size.bit_length() - 1]
        else:
            units = every[offsets]
        values: Array = units.view(np.uint32).reshape(-1, size // 4) if size >= 8 else units
        return values

    def scatter(self, offsets: NDArray[np.int64], size: int, values: Array) -> None:
        """Writes what :meth:`gather` would read; of equal offsets the last wins."""
        aligned, every = self._view(size)
        if size >= 8:
            values = np.ascontiguousarray(values).view(every.dtype).reshape(-1)
        if aligned is not None and not (offsets & (size - 1)).any():
            aligned[offsets >> size.bit_length() - 1] = values.view(aligned.dtype)
        else:
            every[offsets] = values


@dataclass(eq=False)
class Region:
    """One mapped array. ``valid``: which of its bytes exist, None when all do."""

    name: str
    base: int
    data: NDArray[np.uint8]
    writable: bool
    valid: NDArray[np.bool_] | None
    store: ByteStore = field(init=False)
    validity: ByteStore | None = field(init=False)

    def __post_init__(self) -> None:
        self.store = ByteStore(self.data)
        self.validity = None if self.valid is None else ByteStore(self.valid.view(np.uint8))

    @property
    def size(self) -> int:
        return len(self.data)

    def missing(self, offsets: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
        """Which units at ``offsets`` (all inside the region) touch a byte that does not exist."""
        bad = np.zeros(len(offsets), np.bool_)
        if self.validity is None:
            return bad
        unit = min(size, 4)
        for part in range(0, size, unit):
            bad |= self.validity.gather(offsets + part, unit) != _VALID_WORDS[unit]
        return bad


Piece = tuple[Region, NDArray[np.int64], "NDArray[np.intp] | None"]
"""Part of an access: region, byte offsets in it, which of the addresses (None: all of them)."""


class Memory:
    """Global memory as regions in a 64-bit address space; nothing exists between them."""

    def __init__(self) -> None:
        self._regions: list[Region] = []

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(self._regions)

    def adopt(self, other: Memory) -> None:
        """Maps all regions of ``other`` here too; there must be none yet."""
        self._regions = [*other.regions, *self._regions]

    def add(
        self,
        name: str,
        data: NDArray[np.uint8],
        *,
        address: int | None = None,
        writable: bool = True,
        valid: NDArray[np.bool_] | None = None,
    ) -> int:
        """Maps ``data`` itself (uint8 [n], contiguous; stores change it) and returns its address.

        address: where, or None to let the memory choose. valid [n]: the bytes that exist; an access to another faults.
        Raises OctaveError for an array of another kind, and for a region that overlaps one that is there.
        """
        kind_ok = data.dtype == np.uint8 and data.ndim == 1 and (data.flags.c_contiguous or data.size == 0)
        if not kind_ok or (writable and not data.flags.writeable):
            raise OctaveError("a region is a contiguous uint8 array [n], writable if stores may change it", where=name)
        if valid is not None and (valid.shape != data.shape or valid.dtype != np.bool_):
            raise OctaveError("the mask of valid bytes does not fit the region", where=name)
        base = self._free(len(data)) if address is None else address
        if base < 0 or base + len(data) > _LIMIT:
            raise OctaveError(f"address {base:#x} is outside the 48-bit address space", where=name)
        for other in self._regions:
            if base < other.base + other.size and other.base < base + len(data):
                raise OctaveError(f"it overlaps the region {other.name}", where=name)
        self._regions.append(Region(name, base, data, writable, valid))
        return base

    def _free(self, size: int) -> int:
        """The first multiple of the spacing, plus a page, that leaves room behind all regions before it."""
        base = _FIRST + _PAGE
        for region in sorted(self._regions, key=lambda region: region.base):
            if base < region.base + region.size + _PAGE and region.base < base + size + _PAGE:
                base = ((region.base + region.size) // _SPACING + 1) * _SPACING + _PAGE
        return base


class AddressSpace:
    """The regions of one launch, with fast look-up."""

    def __init__(self, regions: tuple[Region, ...]) -> None:
        self._regions = sorted((region for region in regions if region.size), key=lambda region: region.base)
        self._bases = np.array([region.base for region in self._regions], np.uint64)
        self._hints: dict[int, Region] = {}

    def locate(self, addresses: NDArray[np.uint64], size: int, *, write: bool, key: int) -> list[Piece]:
        """The regions that an access of ``size`` bytes at each of ``addresses`` touches.

        key: any number that tells one instruction from another, to try the same region first. Raises InstructionError
        for an access outside every region, to bytes that do not exist, or a write to a read-only region.
        """
        hint = self._hints.get(key)
        if hint is not None:
            offsets = addresses - np.uint64(hint.base)
            if hint.size >= size and int(offsets.max()) <= hint.size - size:
                signed = offsets.view(np.int64)
                self._check(hint, signed, addresses, size, write)
                return [(hint, signed, None)]
        if not self._regions:
            raise self._outside(addresses, size, write)
        index = np.searchsorted(self._bases, addresses, "right").astype(np.intp) - 1
        found: list[Piece] = []
        for number in np.unique(index):
            region = self._regions[number]
            chosen = np.nonzero(index == number)[0]
            offsets = addresses[chosen] - np.uint64(region.base)
            if number < 0 or region.size < size or int(offsets.max()) > region.size - size:
                inside = (offsets <= region.size - size) if number >= 0 and region.size >= size else offsets != offsets
                raise self._outside(addresses[chosen][~inside], size, write)
            signed = offsets.view(np.int64)
            self._check(region, signed, addresses[chosen], size, write)
            found.append((region, signed, chosen))
        if len(found) == 1:
            self._hints[key] = found[0][0]
            return [(found[0][0], found[0][1], None)]
        return found

    @staticmethod
    def _check(region: Region, offsets: NDArray[np.int64], addresses: Array, size: int, write: bool) -> None:
        if write and not region.writable:
            address = int(addresses[0])
            detail = f"store of {size} bytes to {region.name}, byte {int(offsets[0])}"
            raise InstructionError("read_only", detail, address, "map it writable if the kernel is meant to change it")
        if region.validity is not None:
            bad = region.missing(offsets, size)
            if bad.any():
                first = int(np.argmax(bad))
                word = "store" if write else "load"
                detail = (
                    f"{word} of {size} bytes in a hole of {region.name} ({region.size} bytes), byte "
                    f"{int(offsets[first])}; {int(bad.sum())} lanes"
                )
                raise InstructionError("memory", detail, int(addresses[first]))

    def _outside(self, addresses: NDArray[np.uint64], size: int, write: bool) -> InstructionError:
        address = int(addresses[0])
        word = "store" if write else "load"
        detail = f"{word} of {size} bytes, {len(addresses)} lanes"
        if self._regions:

            def distance(region: Region) -> int:
                end = region.base + region.size
                return region.base - address if address < region.base else address + size - end

            near = min(self._regions, key=distance)
            side = "before the start" if address < near.base else "past the end"
            detail += f"; nearest is {near.name} ({near.size} bytes at {near.base:#x}): {distance(near)} bytes {side}"
        return InstructionError("memory", detail, address)

    def load(self, addresses: NDArray[np.uint64], size: int, key: int) -> Array:
        """As :meth:`ByteStore.gather`, at addresses."""
        pieces = self.locate(addresses, size, write=False, key=key)
        if len(pieces) == 1:
            return pieces[0][0].store.gather(pieces[0][1], size)
        shape = (len(addresses), size // 4) if size >= 8 else (len(addresses),)
        values = np.empty(shape, np.uint32 if size >= 8 else _UNSIGNED[size])
        for region, offsets, chosen in pieces:
            values[chosen] = region.store.gather(offsets, size)
        return values

    def save(self, addresses: NDArray[np.uint64], size: int, values: Array, key: int) -> None:
        """As :meth:`ByteStore.scatter`, at addresses."""
        for region, offsets, chosen in self.locate(addresses, size, write=True, key=key):
            region.store.scatter(offsets, size, values if chosen is None else values[chosen])

"""The address space, and loads and stores of every width on it."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from machine import Array, Machine

from octave_gen.errors import OctaveError
from octave_gen.isa import Memory
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.memory import AddressSpace, ByteStore

Make = Callable[..., Machine]


def content(size: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("shift", [0, 1])
def test_bytes_at_any_offset(size: int, shift: int) -> None:
    data = content(200 + shift)[shift:]
    store, offsets = ByteStore(data), np.array([0, 16, 32, 184, 16])
    for extra in (0, 1, 2, 4, 5):
        where = offsets[:3] + extra if extra else offsets
        got = store.gather(where, size)
        assert [bytes(unit) for unit in got.reshape(len(where), -1).view(np.uint8)] == [
            data[at : at + size].tobytes() for at in where
        ]
        new = content(size * 2, seed=9)
        units = new.view(f"<u{size}") if size < 8 else new.view(np.uint32).reshape(2, -1)
        store.scatter(where[:2], size, units)
        for at, unit in zip(where[:2], new.reshape(2, size), strict=True):
            assert (data[at : at + size] == unit).all()


def test_the_array_itself_is_mapped() -> None:
    memory, data = Memory(), content(64)
    address = memory.add("x", data)
    space = AddressSpace(memory.regions)
    space.save(np.array([address + 8], np.uint64), 4, np.array([0xDDCCBBAA], np.uint32), key=0)
    assert data[8:12].tolist() == [0xAA, 0xBB, 0xCC, 0xDD]
    data[20] = 7
    assert space.load(np.array([address + 20], np.uint64), 1, key=0).tolist() == [7]


def test_regions_lie_apart_and_never_overlap() -> None:
    memory = Memory()
    places = [(memory.add(f"r{n}", np.zeros(size, np.uint8)), size) for n, size in enumerate((10, 0, 1 << 20, 5, 5))]
    for (first, size), (second, _) in pairwise(places):
        assert second - (first + size) >= 3 << 32
    with pytest.raises(OctaveError, match="overlaps the region r2"):
        memory.add("bad", np.zeros(8, np.uint8), address=places[2][0] + 100)
    chosen = memory.add("mine", np.zeros(8, np.uint8), address=0x7000_0000_1000)
    assert chosen == 0x7000_0000_1000
    assert memory.add("next", np.zeros(8, np.uint8)) not in range(chosen, chosen + 8)


@pytest.mark.parametrize(
    ("data", "valid"),
    [
        (np.zeros(4, np.int8), None),
        (np.zeros((2, 2), np.uint8), None),
        (np.zeros(8, np.uint8)[::2], None),
        (np.zeros(4, np.uint8), np.ones(3, np.bool_)),
    ],
)
def test_what_cannot_be_mapped(data: Array, valid: Array | None) -> None:
    with pytest.raises(OctaveError):
        Memory().add("x", data, valid=valid)


def test_read_only_arrays() -> None:
    data = content(8)
    data.flags.writeable = False
    memory = Memory()
    with pytest.raises(OctaveError):
        memory.add("x", data)
    memory.add("x", data, writable=False)


def test_an_offset_beyond_4_gib_costs_nothing() -> None:
    size = 6 << 30
    anonymous = mmap.mmap(
        -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    )
    data = np.frombuffer(anonymous, np.uint8)
    memory = Memory()
    address = memory.add("huge", data)
    space = AddressSpace(memory.regions)
    far = np.array([address + size - 4, address + (5 << 30)], np.uint64)
    space.save(far, 4, np.array([1, 2], np.uint32), key=0)
    assert space.load(far, 4, key=0).tolist() == [1, 2]
    with pytest.raises(InstructionError, match=r"huge .* 3 bytes past the end"):
        space.load(far[:1] + np.uint64(3), 4, key=0)


@pytest.mark.parametrize("distance", [-(1 << 40), -4, -1])
def test_before_the_start(distance: int) -> None:
    memory = Memory()
    address = memory.add("x", content(64))
    memory.add("y", content(64))
    with pytest.raises(InstructionError, match=rf"nearest is x \(64 bytes at .*: {-distance} bytes before the start"):
        AddressSpace(memory.regions).load(np.array([address + 8, address + distance], np.uint64), 4, key=0)


@pytest.mark.parametrize(
    ("offset", "size", "past"), [(61, 4, 1), (64, 1, 1), (56, 16, 8), (1 << 33, 2, (1 << 33) - 62)]
)
def test_past_the_end(offset: int, size: int, past: int) -> None:
    memory = Memory()
    address = memory.add("x", content(64))
    space = AddressSpace(memory.regions)
    for _ in range(2):  # with and without a hint
        with pytest.raises(InstructionError, match=f"load of {size} bytes.*: {past} bytes past the end") as raised:
            space.load(np.array([address, address + offset], np.uint64), size, key=0)
        assert raised.value.kind == "memory"
        assert raised.value.address == address + offset
        space.load(np.array([address], np.uint64), size, key=0)


def test_no_memory_at_all() -> None:
    with pytest.raises(InstructionError, match="load of 4 bytes, 1 lanes"):
        AddressSpace(()).load(np.array([0x1000], np.uint64), 4, key=0)


def test_holes() -> None:
    memory, valid = Memory(), np.ones(64, np.bool_)
    valid[21] = False
    address = memory.add("x", content(64), valid=valid)
    space = AddressSpace(memory.regions)
    for size, offset, ok in [
        (1, 20, True),
        (1, 21, False),
        (4, 16, True),
        (4, 18, False),
        (16, 8, False),
        (16, 22, True),
        (12, 20, False),
        (8, 14, False),
        (2, 20, False),
    ]:
        where = np.array([address, address + offset], np.uint64)
        if ok:
            space.load(where, size, key=1)
        else:
            with pytest.raises(InstructionError, match=f"in a hole of x .*byte {offset}; 1 lanes"):
                space.load(where, size, key=1)


def test_several_regions_in_one_access() -> None:
    memory, one, two = Memory(), content(64, 1), content(64, 2)
    first, second = memory.add("one", one), memory.add("two", two, writable=False)
    space = AddressSpace(memory.regions)
    where = np.array([second, first + 4, second + 8, first], np.uint64)
    want = np.array([two[:4], one[4:8], two[8:12], one[:4]]).view(np.uint32).ravel()
    assert (space.load(where, 4, key=0) == want).all()
    rows = space.load(where, 16, key=0)
    assert (rows[1].view(np.uint8) == one[4:20]).all()
    space.save(where[[1, 3]], 4, want[[3, 1]], key=2)
    assert (one[:8].view(np.uint32) == want[[1, 3]]).all()
    third = memory.add("three", content(64, 3))
    AddressSpace(memory.regions).save(np.array([third, first], np.uint64), 4, np.array([5, 6], np.uint32), key=0)
    assert one[:4].view(np.uint32)[0] == 6
    with pytest.raises(InstructionError, match="store of 4 bytes to two, byte 0") as raised:
        space.save(where, 4, want, key=0)
    assert raised.value.kind == "read_only"


# instructions ---------------------------------------------------------------------------------------------------------


LOADS = {
    "gfx942": {
        "ubyte": ("u1", 1), "sbyte": ("i1", 1), "ushort": ("u2", 1), "sshort": ("i2", 1),
        "dword": ("u4", 1), "dwordx2": ("u4", 2), "dwordx3": ("u4", 3), "dwordx4": ("u4", 4),
    },
    "gfx1100": {
        "u8": ("u1", 1), "i8": ("i1", 1), "u16": ("u2", 1), "i16": ("i2", 1),
        "b32": ("u4", 1), "b64": ("u4", 2), "b96": ("u4", 3), "b128": ("u4", 4),
    },
}  # fmt: skip
STORES = {
    "gfx942": {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16},
    "gfx1100": {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16},
}
LOAD_CASES = [(arch, name) for arch, names in LOADS.items() for name in names]
STORE_CASES = [(arch, name) for arch, names in STORES.items() for name in names]


def registers(count: int, first: int = 8) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def scattered(m: Machine, size: int) -> Array:
    """Byte offsets of the lanes, all apart, in no order, some not aligned."""
    places = m.random.permutation(m.waves * m.lanes).reshape(m.waves, m.lanes)
    return places * (size + 3)


def prepared(machine: Make, arch: str, size: int) -> tuple[Machine, Array, Array, int]:
    memory, data = Memory(), content(4096)
    address = memory.add("data", data)
    m = machine(arch, memory=memory)
    return m, data, scattered(m, size), address


def set_addresses(m: Machine, addresses: Array) -> None:
    m.v[2], m.v[3] = addresses & 0xFFFFFFFF, addresses >> 32


@pytest.mark.parametrize(("arch_", "name"), LOAD_CASES)
@pytest.mark.parametrize("kind", ["global", "flat", "scalar"])
def test_loads(machine: Make, arch_: str, name: str, kind: str) -> None:
    dtype, words = LOADS[arch_][name]
    size = np.dtype(dtype).itemsize * words
    m, data, offsets, address = prepared(machine, arch_, size)
    on = m.some_lanes()
    before = m.v.copy()
    if kind == "scalar":
        m.s[4], m.s[5] = (address + 100) & 0xFFFFFFFF, address >> 32
        m.v[2] = offsets
        m.run(f"global_load_{name} {registers(words)}, v2, s[4:5] offset:-100")
    else:
        set_addresses(m, offsets + (address + (8 if kind == "global" else 0)))
        where = "v[2:3], off offset:-8" if kind == "global" else "v[2:3]"
        m.run(f"{kind}_load_{name} {registers(words)}, {where}")
    for wave, lane in np.ndindex(on.shape):
        at = offsets[wave, lane]
        value = data[at : at + size].view(dtype)
        got = m.v[8 : 8 + words, wave, lane]
        want = value.astype("i4").view("u4") if dtype[1] < "4" else value
        assert (got == (want if on[wave, lane] else before[8 : 8 + words, wave, lane])).all()
    assert m.tally.vmem_load == size * on.sum()


@pytest.mark.parametrize(("arch_", "name"), STORE_CASES)
@pytest.mark.parametrize("kind", ["global", "flat"])
def test_stores(machine: Make, arch_: str, name: str, kind: str) -> None:
    size = STORES[arch_][name]
    m, data, offsets, address = prepared(machine, arch_, size)
    on, want = m.some_lanes(), data.copy()
    set_addresses(m, offsets + address)
    where = ("v[2:3]", ", off") if kind == "global" else ("v[2:3]", "")
    m.run(f"{kind}_store_{name} {where[0]}, {registers(max(1, size // 4))}{where[1]}")
    for wave, lane in np.argwhere(on):
        at = offsets[wave, lane]
        want[at : at + size] = np.ascontiguousarray(m.v[8:12, wave, lane]).view(np.uint8)[:size]
    assert (data == want).all()
    assert m.tally.vmem_store == size * on.sum()


HALVES = {
    "gfx942": ["ubyte_d16", "ubyte_d16_hi", "sbyte_d16", "sbyte_d16_hi", "short_d16", "short_d16_hi"],
    "gfx1100": ["d16_u8", "d16_hi_u8", "d16_i8", "d16_hi_i8", "d16_b16", "d16_hi_b16"],
}
HALF_TYPES = [("u1", 0), ("u1", 1), ("i1", 0), ("i1", 1), ("u2", 0), ("u2", 1)]


@pytest.mark.parametrize("number", range(6))
def test_loads_of_half_registers(machine: Make, arch: str, number: int) -> None:
    name, (dtype, half) = HALVES[arch][number], HALF_TYPES[number]
    size = np.dtype(dtype).itemsize
    m, data, offsets, address = prepared(machine, arch, size)
    before = m.v.copy()
    set_addresses(m, offsets + address)
    m.run(f"global_load_{name} v8, v[2:3], off")
    units = np.stack([data[at : at + size] for at in offsets.ravel()]).view(dtype).reshape(offsets.shape)
    new = units.astype("i2").view("u2").astype(np.uint32)
    keep = np.uint32(0xFFFF0000 if half == 0 else 0xFFFF)
    assert (m.v[8] == (before[8] & keep | new << np.uint32(16 * half))).all()


@pytest.mark.parametrize(
    ("arch_", "name", "size"),
    [
        ("gfx942", "byte_d16_hi", 1),
        ("gfx942", "short_d16_hi", 2),
        ("gfx1100", "d16_hi_b8", 1),
        ("gfx1100", "d16_hi_b16", 2),
    ],
)
def test_stores_of_upper_halves(machine: Make, arch_: str, name: str, size: int) -> None:
    m, data, offsets, address = prepared(machine, arch_, size)
    set_addresses(m, offsets + address)
    m.run(f"global_store_{name} v[2:3], v8, off")
    for wave, lane in np.ndindex(offsets.shape):
        at = offsets[wave, lane]
        assert data[at : at + size].tobytes() == (int(m.v[8, wave, lane]) >> 16).to_bytes(2, "little")[:size]


def test_accumulator_registers_as_data(machine: Make) -> None:
    m, data, offsets, address = prepared(machine, "gfx942", 8)
    set_addresses(m, offsets + address)
    before = m.v.copy()
    m.run("global_load_dwordx2 a[4:5], v[2:3], off")
    assert (m.v == before).all()
    at = offsets[1, 7]
    assert m.a[4:6, 1, 7].tolist() == data[at : at + 8].view(np.uint32).tolist()
    m.run("global_store_dword v[2:3], a5, off")
    assert data[at : at + 4].tolist() == data[at + 4 : at + 8].tolist()


@pytest.mark.parametrize("words", [1, 2, 4, 8, 16])
def test_scalar_loads(machine: Make, arch: str, words: int) -> None:
    m, data, _, address = prepared(machine, arch, 4)
    base = np.array([address + 64, address + 130], np.uint64)  # the low two bits do not count
    m.s[4], m.s[5], m.s[6] = base & np.uint64(0xFFFFFFFF), base >> np.uint64(32), [8, 20]
    name = f"dword{f'x{words}' if words > 1 else ''}" if arch == "gfx942" else f"b{32 * words}"
    target = "s20" if words == 1 else f"s[20:{19 + words}]"
    m.run(f"s_load_{name} {target}, s[4:5], 0x10")
    for wave, start in enumerate((80, 144)):
        assert (m.s[20 : 20 + words, wave] == data[start : start + 4 * words].view(np.uint32)).all()
    m.run(f"s_load_{name} {target}, s[4:5], s6 offset:0x4")
    for wave, start in enumerate((76, 152)):
        assert (m.s[20 : 20 + words, wave] == data[start : start + 4 * words].view(np.uint32)).all()
    assert m.tally.smem == 2 * 2 * 4 * words


def test_scratch(machine: Make, arch: str) -> None:
    m = machine(arch)
    on, want = m.some_lanes(), m.batch.scratch.copy()
    m.s[7] = [8, 20]
    m.v[1] = m.random.integers(0, 8, (2, m.lanes)) * 4
    dword = "dword" if arch == "gfx942" else "b32"
    m.run(f"scratch_store_{dword} off, v4, s7 offset:4", f"scratch_store_{dword} v1, v5, off offset:32")
    for wave, lane in np.argwhere(on):
        start = int(m.s[7, wave]) + 4
        want[wave, lane, start : start + 4] = m.v[4, wave, lane : lane + 1].view(np.uint8)
        start = int(m.v[1, wave, lane]) + 32
        want[wave, lane, start : start + 4] = m.v[5, wave, lane : lane + 1].view(np.uint8)
    assert (m.batch.scratch == want).all()
    m.run(f"scratch_load_{dword} v6, off, s7 offset:4")
    assert (m.v[6][on] == want.view(np.uint32)[np.arange(2), :, [3, 6]][on]).all()


@pytest.mark.parametrize("offset", [61, 64, 4000])
def test_scratch_bounds(machine: Make, arch: str, offset: int) -> None:
    m = machine(arch)
    dword = "dword" if arch == "gfx942" else "b32"
    with pytest.raises(InstructionError, match=f"4 bytes at {offset} of 64 bytes of scratch"):
        m.run(f"scratch_load_{dword} v6, off, off offset:{offset}")


def test_flat_addresses_reach_lds_and_scratch(machine: Make, arch: str) -> None:
    memory, data = Memory(), content(256)
    address = memory.add("data", data)
    m = machine(arch, memory=memory)
    lane = np.arange(m.lanes)
    for kind, high in enumerate((address, 0x20000 << 32, 0x10000 << 32)):
        mine = lane % 3 == kind
        where = high + lane // 3 % 15 * 4
        m.v[2][:, mine], m.v[3][:, mine] = where[mine] & 0xFFFFFFFF, where[mine] >> 32
    m.run(f"flat_load_{'dword' if arch == 'gfx942' else 'b32'} v8, v[2:3]")
    local = m.batch.chunk.local.data.view(np.uint32)
    scratch = m.batch.scratch.view(np.uint32)
    for wave, at in np.ndindex(2, m.lanes):
        word = at // 3 % 15
        want = (data.view(np.uint32)[word], local[word], scratch[wave, at, word])[at % 3]
        assert m.v[8, wave, at] == want

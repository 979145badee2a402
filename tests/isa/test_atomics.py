"""Atomic operations, one lane after the other, on global memory, LDS and behind flat addresses; buffer instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from machine import Array, Machine

from octave_gen.isa import Memory
from octave_gen.isa.faults import InstructionError

Make = Callable[..., Machine]
U32, U64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF

INTEGER: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda old, x, top: old + x & top,
    "sub": lambda old, x, top: old - x & top,
    "umin": lambda old, x, top: min(old, x),
    "umax": lambda old, x, top: max(old, x),
    "smin": lambda old, x, top: min(old, x, key=lambda v: v ^ (top + 1 >> 1)),
    "smax": lambda old, x, top: max(old, x, key=lambda v: v ^ (top + 1 >> 1)),
    "and": lambda old, x, top: old & x,
    "or": lambda old, x, top: old | x,
    "xor": lambda old, x, top: old ^ x,
    "inc": lambda old, x, top: 0 if old >= x else old + 1,
    "dec": lambda old, x, top: x if old == 0 or old > x else old - 1,
    "swap": lambda old, x, top: x,
}
GFX11 = {
    "add": "add_u", "sub": "sub_u", "umin": "min_u", "umax": "max_u", "smin": "min_i", "smax": "max_i",
    "and": "and_b", "or": "or_b", "xor": "xor_b", "inc": "inc_u", "dec": "dec_u", "swap": "swap_b",
}  # fmt: skip
LOCAL = {**GFX11, "swap": "wrxchg_rtn_b"}


def prepared(machine: Make, arch: str) -> tuple[Machine, Array, Array]:
    """A machine, the words its atomics go to (many lanes to each), and which word each lane takes."""
    memory = Memory()
    data = np.random.default_rng(3).integers(0, 256, 64, np.uint8)
    data.view(np.uint64)[:4] = [0, 5, U64, 1 << 63]
    address = memory.add("data", data)
    m = machine(arch, memory=memory)
    place = m.random.integers(0, 8, (2, m.lanes))
    where = place * 8 + address
    m.v[2], m.v[3] = where & U32, where >> 32
    small = m.random.random((2, m.lanes)) < 0.3
    m.v[4] = np.where(small, m.random.integers(0, 7, (2, m.lanes)), m.v[4])
    m.v[5] = np.where(small, 0, m.v[5])
    return m, data, place


def value(m: Machine, register: int, wave: int, lane: int, wide: bool) -> int:
    return int(m.v[register, wave, lane]) | (int(m.v[register + 1, wave, lane]) << 32 if wide else 0)


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("returns", [False, True])
def test_integers(machine: Make, arch: str, name: str, wide: bool, returns: bool) -> None:
    m, data, place = prepared(machine, arch)
    words, top = (data.view(np.uint64), U64) if wide else (data.view(np.uint32)[::2], U32)
    memory = [int(word) for word in words]
    on, before = m.some_lanes(), m.v.copy()
    spelled = f"{name}{'_x2' if wide else ''}" if arch == "gfx942" else f"{GFX11[name]}{64 if wide else 32}"
    source, target = ("v[4:5]", "v[8:9], ") if wide else ("v4", "v8, ")
    hint = (" sc0" if arch == "gfx942" else " glc") if returns else ""
    m.run(f"global_atomic_{spelled} {target if returns else ''}v[2:3], {source}, off{hint}")
    for wave, lane in np.ndindex(on.shape):
        old = value(m, 8, wave, lane, wide)
        if not on[wave, lane]:
            assert (m.v[8:10, wave, lane] == before[8:10, wave, lane]).all()
            continue
        at = place[wave, lane]
        if returns:
            assert old == memory[at]
        operand = int(before[4, wave, lane]) | (int(before[5, wave, lane]) << 32 if wide else 0)
        memory[at] = INTEGER[name](memory[at], operand, top)
    assert [int(word) for word in words] == memory


@pytest.mark.parametrize("wide", [False, True])
def test_compare_and_swap(machine: Make, arch: str, wide: bool) -> None:
    m, data, place = prepared(machine, arch)
    words = data.view(np.uint64) if wide else data.view(np.uint32)[::2]
    memory = [int(word) for word in words]
    expected = words[place]
    m.v[6 if wide else 5] = np.where(
        m.random.random(place.shape) < 0.5, expected & np.uint64(U32) if wide else expected, 7
    )
    if wide:
        m.v[7] = expected >> np.uint64(32)
    spelled = f"cmpswap{'_x2' if wide else ''}" if arch == "gfx942" else f"cmpswap_b{64 if wide else 32}"
    source, target = ("v[4:7]", "v[8:9]") if wide else ("v[4:5]", "v8")
    m.run(f"global_atomic_{spelled} {target}, v[2:3], {source}, off {'sc0' if arch == 'gfx942' else 'glc'}")
    for wave, lane in np.ndindex(place.shape):
        at = place[wave, lane]
        assert value(m, 8, wave, lane, wide) == memory[at]
        if memory[at] == value(m, 6 if wide else 5, wave, lane, wide):
            memory[at] = value(m, 4, wave, lane, wide)
    assert [int(word) for word in words] == memory


def test_floats(machine: Make, arch: str) -> None:
    m, data, place = prepared(machine, arch)
    floats = data.view(np.float32)[::2]
    floats[...] = np.arange(8)
    m.v[4].view(np.float32)[...] = m.random.normal(size=place.shape).astype(np.float32)
    want = floats.copy()
    for wave, lane in np.ndindex(place.shape):
        want[place[wave, lane]] += m.v[4, wave, lane].view(np.float32)
    m.run("global_atomic_add_f32 v[2:3], v4, off")
    assert (floats == want).all()


def test_packed_halves(machine: Make) -> None:
    m, data, place = prepared(machine, "gfx942")
    halves = data.view(np.float16).reshape(8, 4)[:, :2]
    halves[...] = 1
    m.v[4] = np.array([0.5, -2], np.float16).view(np.uint32)[0]
    want = np.full((8, 2), 1, np.float16)
    for wave, lane in np.ndindex(place.shape):
        want[place[wave, lane]] += np.array([0.5, -2], np.float16)
    m.run("global_atomic_pk_add_f16 v[2:3], v4, off")
    assert (halves == want).all()


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize("wide", [False, True])
def test_on_lds(machine: Make, arch: str, name: str, wide: bool) -> None:
    m = machine(arch)
    place = m.random.integers(0, 8, (2, m.lanes))
    m.v[1] = place * 8 + 16
    local = m.batch.chunk.local.data[16:80]
    words, top = (local.view(np.uint64), U64) if wide else (local.view(np.uint32)[::2], U32)
    memory = [int(word) for word in words]
    bits = 64 if wide else 32
    spelled = LOCAL[name] if arch == "gfx942" or name != "swap" else "storexchg_rtn_b"
    spelled = spelled if "rtn" in spelled else spelled.replace("_", "_rtn_", 1)
    before = m.v.copy()
    source, target = ("v[4:5]", "v[8:9]") if wide else ("v4", "v8")
    m.run(f"ds_{spelled}{bits} {target}, v1, {source}")
    for wave, lane in np.ndindex(place.shape):
        at = place[wave, lane]
        assert value(m, 8, wave, lane, wide) == memory[at]
        operand = int(before[4, wave, lane]) | (int(before[5, wave, lane]) << 32 if wide else 0)
        memory[at] = INTEGER[name](memory[at], operand, top)
    assert [int(word) for word in words] == memory


def test_compare_and_swap_on_lds(machine: Make, arch: str) -> None:
    """gfx9 names the expected value first, gfx11 the new one."""
    m = machine(arch)
    m.v[1] = np.arange(m.lanes) * 4
    m.batch.chunk.local.data.view(np.uint32)[: m.lanes] = np.arange(m.lanes) % 2
    m.exec = np.arange(2)[:, None] == 0
    m.v[4], m.v[5] = 1, 99
    text = "ds_cmpst_rtn_b32 v8, v1, v4, v5" if arch == "gfx942" else "ds_cmpstore_rtn_b32 v8, v1, v5, v4"
    m.run(text)
    assert m.v[8, 0].tolist() == [n % 2 for n in range(m.lanes)]
    assert m.batch.chunk.local.data.view(np.uint32)[: m.lanes].tolist() == [99 if n % 2 else 0 for n in range(m.lanes)]


def test_flat_atomics_reach_lds(machine: Make, arch: str) -> None:
    m, data, _ = prepared(machine, arch)
    shared = np.arange(m.lanes) % 2 == 1
    m.v[2][:, shared], m.v[3][:, shared], m.v[4] = 40, 0x20000, 3
    total, other = int(m.batch.chunk.local.data[40:44].view(np.uint32)[0]), data.view(np.uint32).astype(np.uint64).sum()
    m.run("flat_atomic_add v[2:3], v4" if arch == "gfx942" else "flat_atomic_add_u32 v[2:3], v4")
    assert int(m.batch.chunk.local.data[40:44].view(np.uint32)[0]) == (total + 3 * m.lanes) & U32
    change = int(data.view(np.uint32).astype(np.uint64).sum()) - int(other)
    assert (change - 3 * m.lanes) % (1 << 32) == 0
    m.v[3] = 0x10000
    with pytest.raises(InstructionError, match="scratch"):
        m.run("flat_atomic_add v[2:3], v4" if arch == "gfx942" else "flat_atomic_add_u32 v[2:3], v4")


def test_alignment(machine: Make, arch: str) -> None:
    m, _, _ = prepared(machine, arch)
    m.v[2] += 2
    with pytest.raises(InstructionError, match="4 bytes") as raised:
        m.run("global_atomic_add v[2:3], v4, off" if arch == "gfx942" else "global_atomic_add_u32 v[2:3], v4, off")
    assert raised.value.kind == "alignment"
    m.v[1] = 6
    with pytest.raises(InstructionError, match="4 bytes of LDS"):
        m.run("ds_add_u32 v1, v4")


# buffers --------------------------------------------------------------------------------------------------------------


def buffer(machine: Make, arch: str, records: int, stride: int = 0) -> tuple[Machine, Array]:
    """A machine whose s[4:7] describe 256 bytes."""
    memory = Memory()
    data = np.random.default_rng(4).integers(0, 256, 256, np.uint8)
    address = memory.add("data", data)
    m = machine(arch, memory=memory)
    m.s[4], m.s[5], m.s[6], m.s[7] = address & U32, address >> 32 | stride << 16, records, 0
    return m, data


def spelled(arch: str, words: int) -> str:
    return f"dword{f'x{words}' if words > 1 else ''}" if arch == "gfx942" else f"b{32 * words}"


def test_raw_buffer(machine: Make, arch: str) -> None:
    m, data = buffer(machine, arch, 200)
    m.s[8] = 8
    m.v[1] = m.random.integers(0, 64, (2, m.lanes)) * 4
    on, before = m.some_lanes(), m.v.copy()
    m.run(f"buffer_load_{spelled(arch, 2)} v[10:11], v1, s[4:7], s8 offen offset:4")
    padded = np.concatenate([data, np.zeros(64, np.uint8)]).view(np.uint32)
    for wave, lane in np.ndindex(on.shape):
        for word in range(2):
            offset = int(m.v[1, wave, lane]) + 4 + 4 * word
            want = padded[(offset + 8) // 4] if offset + 4 <= 200 else 0  # the scalar offset is not checked
            assert m.v[10 + word, wave, lane] == (want if on[wave, lane] else before[10 + word, wave, lane])


def test_raw_buffer_stores(machine: Make, arch: str) -> None:
    m, data = buffer(machine, arch, 100)
    want = data.copy()
    m.exec = np.arange(2)[:, None] == 0
    m.v[1] = np.arange(m.lanes) * 4
    m.run(f"buffer_store_{spelled(arch, 1)} v2, v1, s[4:7], 0 offen")
    count = min(25, m.lanes)
    want[: 4 * count] = m.v[2, 0, :count].view(np.uint8)
    assert (data == want).all()
    m.v[1] = np.arange(m.lanes)
    m.run(f"buffer_store_{'byte' if arch == 'gfx942' else 'b8'} v3, v1, s[4:7], 0 offen offset:100")
    assert (data == want).all()


def test_buffer_without_lane_offsets(machine: Make, arch: str) -> None:
    m, data = buffer(machine, arch, 256)
    name = "ushort" if arch == "gfx942" else "u16"
    m.run(f"buffer_load_{name} v3, off, s[4:7], 0 offset:18")
    assert (m.v[3] == data[18:20].view(np.uint16)).all()


def test_structured_buffer(machine: Make, arch: str) -> None:
    m, data = buffer(machine, arch, 12, stride=16)
    m.v[2], m.v[3] = m.random.integers(0, 20, (2, m.lanes)), m.random.integers(0, 3, (2, m.lanes)) * 4
    m.run(f"buffer_load_{spelled(arch, 1)} v4, v[2:3], s[4:7], 0 idxen offen offset:4")
    word = np.minimum(m.v[2], 11) * 4 + m.v[3] // 4 + 1
    assert (m.v[4] == np.where(m.v[2] < 12, data.view(np.uint32)[word], 0)).all()


def test_buffer_atomics(machine: Make, arch: str) -> None:
    m, data = buffer(machine, arch, 64)
    m.v[1] = np.where(np.arange(m.lanes) % 2, 4, 64)
    m.v[2] = 1
    first = int(data.view(np.uint32)[1])
    untouched = int(data.view(np.uint32)[16])
    m.run(
        "buffer_atomic_add v2, v1, s[4:7], 0 offen"
        if arch == "gfx942"
        else "buffer_atomic_add_u32 v2, v1, s[4:7], 0 offen"
    )
    assert int(data.view(np.uint32)[1]) == (first + m.lanes) & U32
    assert int(data.view(np.uint32)[16]) == untouched


def test_swizzled_buffers_are_refused(machine: Make, arch: str) -> None:
    m, _ = buffer(machine, arch, 64)
    m.s[5] |= np.uint32(1 << 31)
    with pytest.raises(InstructionError, match="swizzled"):
        m.run(f"buffer_load_{spelled(arch, 1)} v3, v1, s[4:7], 0 offen")


def test_records_that_lie_outside_memory_fault(machine: Make, arch: str) -> None:
    m, _ = buffer(machine, arch, 300)
    m.v[1] = 256
    with pytest.raises(InstructionError, match="4 bytes past the end"):
        m.run(f"buffer_load_{spelled(arch, 1)} v3, v1, s[4:7], 0 offen")

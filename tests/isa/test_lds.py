"""LDS: every access, bounds, races between barriers, bank conflicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from machine import Array, Machine

from octave_gen.isa.faults import InstructionError
from octave_gen.isa.lds import bank_cycles
from octave_gen.isa.operands import Chip

GFX942, GFX950, GFX1100 = Chip(True, 64), Chip(True, 64, gfx950=True), Chip(False, 32)
Make = Callable[..., Machine]

NAMES = {
    "gfx942": {"u8": 1, "u16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16},
    "gfx1100": {"u8": 1, "u16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16},
}
CASES = [(arch, name, size) for arch, names in NAMES.items() for name, size in names.items()]


def verbs(arch: str) -> tuple[str, str]:
    return ("ds_read", "ds_write") if arch == "gfx942" else ("ds_load", "ds_store")


def registers(count: int, first: int = 8) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def local(m: Machine, workgroup: int = 0) -> Array:
    memory = m.batch.chunk.local
    return memory.data[workgroup * memory.stride : workgroup * memory.stride + memory.size]


def apart(m: Machine, size: int, limit: int) -> Array:
    """One byte offset per lane of a workgroup of two waves, all apart, below ``limit``."""
    step = limit // (2 * m.lanes)
    return m.random.permutation(2 * m.lanes).reshape(2, m.lanes) * step + m.random.integers(0, max(step - size, 0) + 1)


@pytest.mark.parametrize(("arch_", "name", "size"), CASES)
@pytest.mark.parametrize("offset", [0, 20])
def test_loads(machine: Make, arch_: str, name: str, size: int, offset: int) -> None:
    m = machine(arch_, waves=4, lds=4096)
    m.v[1] = np.concatenate([apart(m, size, 4000), apart(m, size, 4000)])
    on, before = m.some_lanes(), m.v.copy()
    words = max(1, size // 4)
    m.run(f"{verbs(arch_)[0]}_{name} {registers(words)}, v1" + (f" offset:{offset}" if offset else ""))
    for wave, lane in np.ndindex(on.shape):
        at = int(m.v[1, wave, lane]) + offset
        raw = local(m, wave // 2)[at : at + size].tobytes().ljust(4 * words, b"\0")
        want = np.frombuffer(raw, np.uint32) if on[wave, lane] else before[8 : 8 + words, wave, lane]
        assert (m.v[8 : 8 + words, wave, lane] == want).all()
    assert m.tally.lds_load == size * on.sum()


@pytest.mark.parametrize(
    ("arch_", "name", "size"), [(a, n.replace("u8", "b8").replace("u16", "b16"), s) for a, n, s in CASES]
)
def test_stores(machine: Make, arch_: str, name: str, size: int) -> None:
    m = machine(arch_, lds=4096)
    m.v[1] = apart(m, size, 4000)
    on, want = m.some_lanes(), local(m).copy()
    m.run(f"{verbs(arch_)[1]}_{name} v1, {registers(max(1, size // 4))} offset:64")
    for wave, lane in np.argwhere(on):
        at = int(m.v[1, wave, lane]) + 64
        want[at : at + size] = np.ascontiguousarray(m.v[8:12, wave, lane]).view(np.uint8)[:size]
    assert (local(m) == want).all()


def test_signed_loads_and_half_registers(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.v[1] = apart(m, 2, 1000)
    before = m.v.copy()
    load, store = verbs(arch)
    halves = ("u16_d16", "u16_d16_hi", "b16_d16_hi")
    m.run(
        f"{load}_i8 v2, v1", f"{load}_i16 v3, v1", f"{load}_{halves[0]} v4, v1", f"{load}_{halves[1]} v4, v1 offset:1"
    )
    at = m.v[1]
    pair = local(m)[at].astype(np.uint32) | local(m)[at + 1].astype(np.uint32) << 8
    assert (m.v[2] == local(m).view(np.int8)[at].astype(np.int32).view(np.uint32)).all()
    assert (m.v[3] == pair.astype(np.uint16).view(np.int16).astype(np.int32).view(np.uint32)).all()
    upper = local(m)[at + 1].astype(np.uint32) | local(m)[at + 2].astype(np.uint32) << 8
    assert (m.v[4] == (pair | upper << 16)).all()
    m.run(f"{store}_{halves[2]} v1, v5")
    assert local(m)[int(at[0, 3])] == int(before[5, 0, 3]) >> 16 & 0xFF


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("size", [4, 8])
def test_two_addresses(machine: Make, arch: str, strided: bool, size: int) -> None:
    m = machine(arch, lds=40000)
    m.v[1] = apart(m, size, 4000)
    unit = size * (64 if strided else 1)
    suffix = {"gfx942": f"2{'st64' if strided else ''}", "gfx1100": f"_2addr{'_stride64' if strided else ''}"}[arch]
    load, store = verbs(arch)
    words = size // 4
    m.run(f"{load}{suffix}_b{8 * size} {registers(2 * words)}, v1 offset0:2 offset1:5")
    for wave, lane in ((0, 0), (1, 9), (1, m.lanes - 1)):
        want = b"".join(
            local(m)[at : at + size].tobytes() for at in (int(m.v[1, wave, lane]) + unit * n for n in (2, 5))
        )
        assert np.ascontiguousarray(m.v[8 : 8 + 2 * words, wave, lane]).tobytes() == want
    m.v[1] = np.arange(2 * m.lanes).reshape(2, m.lanes) * 8
    m.run(f"{store}{suffix}_b{8 * size} v1, {registers(words, 12)}, {registers(words, 16)} offset1:64")
    lane = m.lanes - 1
    at = int(m.v[1, 1, lane]) + 64 * unit
    assert local(m)[at : at + size].tobytes() == np.ascontiguousarray(m.v[16 : 16 + words, 1, lane]).tobytes()


def test_address_and_offset_wrap_at_32_bits(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.v[1] = 0xFFFFFFFC
    m.run(f"{verbs(arch)[0]}_b32 v0, v1 offset:8")
    assert (m.v[0] == local(m)[4:8].view(np.uint32)).all()


@pytest.mark.parametrize(("size", "address", "past"), [(4, 1021, 1), (4, 1024, 4), (16, 1012, 4), (1, 1024, 1)])
def test_bounds(machine: Make, arch: str, size: int, address: int, past: int) -> None:
    m = machine(arch, lds=1024)
    m.v[1] = 0
    m.v[1, 1, 4] = address
    name = {1: "u8", 4: "b32", 16: "b128"}[size]
    with pytest.raises(
        InstructionError, match=f"{size} bytes at {address} of 1024 bytes of LDS, {past} past the end"
    ) as raised:
        m.run(f"{verbs(arch)[0]}_{name} {registers(max(1, size // 4))}, v1")
    assert raised.value.kind == "lds_bounds"
    m.v[1, 1, 4] = 0
    m.run(f"{verbs(arch)[0]}_{name} {registers(max(1, size // 4))}, v1")


def test_lanes_that_are_off_have_no_bounds(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.v[1] = 0xFFFFFF
    mask = np.zeros((2, m.lanes), np.bool_)
    m.exec = mask
    m.run(f"{verbs(arch)[0]}_b32 v0, v1")


# races ----------------------------------------------------------------------------------------------------------------


class Waves:
    """Two waves of one workgroup that take turns."""

    def __init__(self, machine: Make, arch: str) -> None:
        self.m = machine(arch, check_races=True)
        self.load, self.store = (verb + "_" for verb in verbs(arch))
        self.m.v[1] = np.arange(self.m.lanes) * 4

    def turn(self, wave: int | None, text: str, *, at: int | None = None) -> None:
        """One instruction by one wave (None: both), every lane at its own word, or all at byte ``at``."""
        mask = np.zeros((2, self.m.lanes), np.bool_)
        mask[slice(None) if wave is None else wave] = True
        self.m.exec = mask
        if at is not None:
            self.m.v[1] = at
        self.m.run(text)

    def barrier(self) -> None:
        races = self.m.batch.chunk.local.races
        assert races is not None
        races.interval += 1

    def race(self, wave: int | None, text: str, words: str, *, at: int | None = None) -> None:
        with pytest.raises(InstructionError, match=words) as raised:
            self.turn(wave, text, at=at)
        assert raised.value.kind == "lds_race"


@pytest.fixture
def waves(machine: Make, arch: str) -> Waves:
    return Waves(machine, arch)


def test_store_then_load(waves: Waves) -> None:
    waves.turn(0, f"{waves.store}b32 v1, v2")
    waves.turn(0, f"{waves.load}b32 v3, v1")
    waves.race(1, f"{waves.load}b32 v3, v1", "load by wave 1 and store by wave 0 with no barrier between them")
    waves.barrier()
    waves.turn(None, f"{waves.load}b32 v3, v1")


def test_load_then_store(waves: Waves) -> None:
    waves.turn(1, f"{waves.load}b32 v3, v1")
    waves.race(0, f"{waves.store}b32 v1, v2", "store by wave 0 and load by wave 1")
    waves.barrier()
    waves.turn(0, f"{waves.store}b32 v1, v2")


def test_load_by_both_then_store(waves: Waves) -> None:
    waves.turn(None, f"{waves.load}b32 v3, v1")
    waves.race(0, f"{waves.store}b32 v1, v2", "store by wave 0 and load by several waves")


def test_load_by_one_after_the_other_then_store(waves: Waves) -> None:
    waves.turn(0, f"{waves.load}b32 v3, v1")
    waves.turn(1, f"{waves.load}b32 v3, v1")
    waves.race(1, f"{waves.store}b32 v1, v2", "store by wave 1 and load by several waves")


def test_two_stores(waves: Waves) -> None:
    waves.turn(0, f"{waves.store}b32 v1, v2", at=40)
    waves.turn(0, f"{waves.store}b32 v1, v2", at=40)
    waves.race(1, f"{waves.store}b32 v1, v2", "store by wave 1 and store by wave 0", at=40)


def test_two_stores_by_one_instruction(waves: Waves) -> None:
    waves.race(None, f"{waves.store}b32 v1, v2", "store by wave 0 and store by wave 1")


def test_neighbouring_bytes_are_no_race(waves: Waves) -> None:
    waves.turn(0, f"{waves.store}b8 v1, v2", at=8)
    waves.turn(1, f"{waves.store}b8 v1, v2", at=9)
    waves.turn(1, f"{waves.store}b16 v1, v2", at=10)
    waves.turn(0, f"{waves.load}u8 v3, v1", at=8)
    waves.race(0, f"{waves.load}b32 v3, v1", "load by wave 0 and store by wave 1", at=8)


def test_units_refined_after_the_fact(waves: Waves) -> None:
    """Words that were recorded before the first narrow access stay recorded, byte by byte."""
    waves.turn(0, f"{waves.store}b32 v1, v2", at=16)
    waves.turn(1, f"{waves.load}u8 v3, v1", at=20)
    waves.race(1, f"{waves.load}u8 v3, v1", "store by wave 0", at=19)


def test_wide_access_that_overlaps_a_word(waves: Waves) -> None:
    waves.turn(0, f"{waves.store}b32 v1, v2", at=28)
    waves.race(1, f"{waves.load}b128 v[4:7], v1", "load by wave 1 and store by wave 0", at=16)


def test_atomics_race_only_with_the_others(waves: Waves) -> None:
    waves.turn(None, "ds_add_u32 v1, v2", at=4)
    waves.turn(0, "ds_add_u32 v1, v2", at=4)
    waves.race(1, f"{waves.load}b32 v3, v1", "load by wave 1 and atomic by several waves", at=4)
    waves.barrier()
    waves.turn(0, f"{waves.store}b32 v1, v2", at=4)
    waves.race(1, "ds_add_u32 v1, v2", "atomic by wave 1 and store by wave 0", at=4)


def test_workgroups_do_not_race_with_each_other(machine: Make, arch: str) -> None:
    m = machine(arch, waves=2, waves_per_workgroup=1, check_races=True)
    m.v[1] = 8
    m.run(f"{verbs(arch)[1]}_b32 v1, v2", f"{verbs(arch)[0]}_b32 v3, v1")


# bank conflicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("addresses", "size", "load", "chip", "cycles"),
    [
        (np.arange(64) * 4, 4, True, GFX942, (2, 2)),
        (np.arange(32) * 4, 4, True, GFX1100, (1, 1)),
        (np.arange(64) * 8, 4, True, GFX942, (4, 2)),
        (np.arange(64) * 128, 4, True, GFX942, (64, 2)),
        (np.zeros(64, np.int64), 4, True, GFX942, (2, 2)),  # one word for all is a broadcast
        (np.arange(64) // 2 * 4, 4, True, GFX942, (2, 2)),
        (np.arange(64), 1, True, GFX942, (2, 2)),
        (np.arange(64) * 8, 8, True, GFX942, (4, 4)),
        (np.arange(64) * 16, 16, True, GFX942, (8, 8)),
        (np.arange(64) * 16, 16, False, GFX942, (8, 8)),
        (np.arange(32) * 16, 16, True, GFX1100, (4, 4)),
        (np.arange(64) * 264, 8, True, GFX942, (4, 4)),
        (np.arange(64) * 256, 16, False, GFX942, (64, 8)),
        (np.arange(64) * 4, 4, True, GFX950, (1, 1)),
        (np.arange(64) * 4, 4, False, GFX950, (2, 2)),
        (np.arange(64) * 8, 4, True, GFX950, (2, 1)),
        (np.arange(64) * 8, 8, True, GFX950, (2, 2)),
        (np.arange(64) * 8, 8, False, GFX950, (4, 4)),
        (np.arange(64) * 16, 16, True, GFX950, (4, 4)),
        (np.arange(64) * 16, 16, False, GFX950, (8, 8)),
        (np.arange(64) * 256, 4, True, GFX950, (64, 1)),
        (np.arange(64) * 128, 4, True, GFX950, (32, 1)),
    ],
)
def test_bank_cycles(addresses: Array, size: int, load: bool, chip: Chip, cycles: tuple[int, int]) -> None:
    every = np.ones((1, len(addresses)), np.bool_)
    assert bank_cycles(addresses[None], every, size, load=load, chip=chip) == cycles
    twice = np.concatenate([addresses, addresses + 4]).reshape(2, -1)
    doubled = (2 * cycles[0], 2 * cycles[1])
    assert bank_cycles(twice, np.concatenate([every, every]), size, load=load, chip=chip) == doubled


def test_bank_cycles_of_some_lanes() -> None:
    mask = np.zeros((1, 64), np.bool_)
    assert bank_cycles(np.arange(64)[None] * 128, mask, 4, load=True, chip=GFX942) == (0, 0)
    mask[0, :3] = True
    for bank in (0, 31):
        assert bank_cycles(np.arange(64)[None] * 128 + 4 * bank, mask, 4, load=True, chip=GFX942) == (3, 1)


def test_lanes_that_change_one_word_take_their_turns() -> None:
    every = np.ones((1, 64), np.bool_)
    for addresses, cycles in (
        (np.zeros(64, np.int64), (64, 2)),
        (np.arange(64) // 2 * 4, (4, 2)),
        (np.arange(64) * 4, (2, 2)),
    ):
        for load in (True, False):
            found = bank_cycles(addresses[None], every, 4, load=load, chip=GFX942, atomic=True)
            assert found == cycles


def test_wide_loads_of_gfx9_pair_groups_of_four_lanes() -> None:
    """Lanes 0-3 and 20-23 share a phase; lanes 0-3 and 4-7 do not."""
    addresses = np.arange(64) * 16
    addresses[20:24] = np.arange(4) * 16 + 1024  # the banks of lanes 0-3
    every = np.ones((1, 64), np.bool_)
    assert bank_cycles(addresses[None], every, 16, load=True, chip=GFX942) == (9, 8)
    addresses = np.arange(64) * 16
    addresses[4:8] = np.arange(4) * 16 + 1024
    addresses[16:20] = np.arange(4) * 16 + 64  # their partners' own banks
    assert bank_cycles(addresses[None], every, 16, load=True, chip=GFX942) == (8, 8)
    assert bank_cycles(addresses[None], every, 16, load=False, chip=GFX942) == (10, 8)


def test_wide_loads_of_gfx950_run_in_phases_of_sixteen_lanes() -> None:
    """Lanes 0-3 share a phase with 12-15 and 20-27, and not with 4-11."""
    every = np.ones((1, 64), np.bool_)
    for lane, cycles in ((12, 5), (20, 5), (24, 5), (4, 4), (8, 4), (16, 4), (28, 4), (32, 4)):
        addresses = np.zeros(64, np.int64)
        addresses[:4] = np.arange(4) * 16
        addresses[lane : lane + 4] = np.arange(4) * 16 + 1024  # the banks of lanes 0-3
        mask = np.zeros((1, 64), np.bool_)
        mask[0, [*range(4), *range(lane, lane + 4)]] = True
        taken, ideal = bank_cycles(addresses[None], mask, 16, load=True, chip=GFX950)
        assert taken - ideal == cycles - 4
    assert bank_cycles((np.arange(64) * 16)[None], every, 16, load=True, chip=GFX950) == (4, 4)


def test_counting_moves_no_bank(machine: Make, arch: str) -> None:
    """Equal patterns at other words are counted from memory, with the same result."""
    m = machine(arch, lds=8192)
    lane = np.arange(m.lanes)
    for stride in (4, 12, 128):
        m.v[1] = lane % 32 * stride
        m.run(f"{verbs(arch)[0]}_b32 v0, v1")
        first = (m.tally.lds_cycles, m.tally.lds_ideal)
        m.v[1] += 36
        m.run(f"{verbs(arch)[0]}_b32 v0, v1")
        assert (m.tally.lds_cycles, m.tally.lds_ideal) == (2 * first[0], 2 * first[1])
        m.tally.lds_cycles = m.tally.lds_ideal = 0

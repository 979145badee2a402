"""How long one wave takes that has its SIMD to itself: its instructions one after another, with what they wait for.

An in-order estimate, not timing. Each instruction issues after the one before it (``arch.LoneWave.slot``, or for as
long as it keeps the SIMD), when the vector, scalar and matrix results that it reads are there. Loads from memory come
back a fixed number of clocks after their issue, LDS after ``LoneWave.lds``; ``s_waitcnt`` waits until as few are on the
way as it says. Other waves, caches, bank conflicts and the fetch of instructions are not in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from octave_gen import isa
from octave_gen.arch import MATRIX_LAYOUTS, QUARTER_RATE_MULTIPLIES, IssueCosts
from octave_gen.isa.decode import Instruction, Operand
from octave_gen.profile.built import Kernel
from octave_gen.profile.workload import METHODS, Workload
from octave_gen.verify.executor import Interpreter, written
from octave_gen.verify.subject import Subject

MEMORY_LATENCY = 1000
"""Clocks from the issue of a load to its data, unless another number is asked for."""
TILE = 16
"""Tokens of a tile: of what a wave of the matrix tiers takes at a time."""

_COUNTER = re.compile(r"(vmcnt|lgkmcnt|vscnt)\((\d+)\)")
_ONE_COUNTER = re.compile(r"s_waitcnt_(vmcnt|lgkmcnt|vscnt) null, (\w+)")
_TWO_RESULTS = ("_co_u32", "_co_ci_u32", "v_mad_u64_u32", "v_mad_i64_i32", "v_div_scale", "v_swap")
_ALSO_READ = ("v_fmac", "v_pk_fmac", "v_mac", "v_dot", "v_swap")
"""Bases that may read what they write."""

Register = tuple[str, int]


@dataclass
class _Wave:
    """clock: when the next instruction may issue; ready: when a register's new value can be read; on_the_way: when
    loads and stores come back, by counter; pipe: when matrix cores and LDS take the next instruction."""

    clock: float = 0.0
    ready: dict[Register, float] = field(default_factory=dict)
    on_the_way: dict[str, list[float]] = field(default_factory=lambda: {"vmcnt": [], "lgkmcnt": [], "vscnt": []})
    pipe: dict[str, float] = field(default_factory=lambda: {"matrix": 0.0, "lds": 0.0})


def _registers(operands: Iterable[Operand]) -> Iterator[Register]:
    for operand in operands:
        if operand.kind in "vas":
            for index in range(operand.index, operand.index + operand.count):
                yield operand.kind, index


def _halves(instruction: Instruction) -> Iterator[Instruction]:
    yield instruction
    if instruction.second is not None:
        yield instruction.second


def _results(instruction: Instruction) -> Iterator[Register]:
    for half in _halves(instruction):
        yield from _registers(half.operands[: 2 if half.base.endswith(_TWO_RESULTS) else 1])


def _sources(instruction: Instruction, kind: str) -> Iterator[Register]:
    for half in _halves(instruction):
        whole = kind in ("vmem", "lds", "branch") or half.base.startswith(_ALSO_READ)
        yield from _registers(half.operands if whole else half.operands[1:])


def _waits(text: str) -> Iterator[tuple[str, int]]:
    one = _ONE_COUNTER.match(text)
    if one:
        yield one[1], int(one[2], 0)
    elif text.startswith("s_waitcnt "):
        yield from ((name, int(number)) for name, number in _COUNTER.findall(text))


def lone_clocks(
    trace: Iterable[tuple[Instruction, str]], costs: IssueCosts, lanes: int, latency: float = MEMORY_LATENCY
) -> float:
    """Clocks from the first instruction of a wave's trace to the end of its last.

    trace: the instructions in the order in which the wave executed them, each with its class (``isa.CLASSES``); lanes:
    of a wave; latency: of loads from memory, in clocks.
    """
    rules, wave = costs.lone_wave, _Wave()
    items = list(trace)
    for place, (instruction, kind) in enumerate(items):
        if instruction.text.startswith("s_delay_alu"):
            continue
        start = max((wave.clock, *(wave.ready.get(register, 0.0) for register in _sources(instruction, kind))))
        busy: float = rules.slot
        if kind in ("valu", "transcendental"):
            slow = kind == "transcendental" or instruction.base in QUARTER_RATE_MULTIPLIES
            busy = max(busy, costs.quarter_rate if slow else costs.valu)
            after = rules.transcendental if kind == "transcendental" else rules.multiply if slow else rules.vector
            wave.ready.update(dict.fromkeys(_results(instruction), start + after))
        elif kind == "salu":
            wave.ready.update(dict.fromkeys(_results(instruction), start + rules.scalar))
        elif kind == "matrix":
            start, busy = _matrix(wave, instruction, costs, start)
        elif kind == "lds":
            _lds(wave, instruction, costs, lanes, start)
        elif kind in ("vmem", "smem"):
            _memory(wave, instruction, costs, start + latency)
        elif kind == "branch":
            following = items[place + 1][0].address if place + 1 < len(items) else None
            if following not in (None, instruction.address + instruction.size):
                busy = max(busy, rules.branch)
        elif instruction.base == "s_nop":
            busy = rules.slot * (1 + int(instruction.operands[0].text, 0))
        for counter, left in _waits(instruction.text):
            queue = wave.on_the_way[counter]
            while len(queue) > left:
                start = max(start, queue.pop(0))
        wave.clock = start + busy
    return wave.clock


def _matrix(wave: _Wave, instruction: Instruction, costs: IssueCosts, start: float) -> tuple[float, float]:
    """When it issues and how long it keeps the wave; its accumulator may be the result of the one before it."""
    rules = costs.lone_wave
    own = costs.matrix(MATRIX_LAYOUTS[instruction.base])
    result = list(_registers(instruction.operands[:1]))
    if list(_registers(instruction.operands[3:4])) == result:
        start = max(
            (wave.clock, *(wave.ready.get(register, 0.0) for register in _registers(instruction.operands[1:3])))
        )
        # Its own registers are ready earlier for it than for others.
        early = rules.matrix - rules.accumulate
        start = max((start, *(wave.ready.get(register, 0.0) - early for register in result)))
    start = max(start, wave.pipe["matrix"])
    wave.pipe["matrix"] = start + own
    wave.ready.update(dict.fromkeys(result, start + own + rules.matrix))
    return start, rules.slot if costs.matrix_overlaps_valu else own


def _lds(wave: _Wave, instruction: Instruction, costs: IssueCosts, lanes: int, start: float) -> None:
    size = re.search(r"b(8|16|32|64|96|128)$", instruction.base)
    units = 2 if instruction.base.startswith(("ds_read2", "ds_write2", "ds_load_2", "ds_store_2")) else 1
    moved = units * lanes * (int(size[1]) // 8 if size else 4)
    begin = max(start, wave.pipe["lds"])
    wave.pipe["lds"] = begin + moved / costs.lds_bytes
    wave.on_the_way["lgkmcnt"].append(wave.pipe["lds"] + costs.lone_wave.lds)
    wave.on_the_way["lgkmcnt"].sort()


def _memory(wave: _Wave, instruction: Instruction, costs: IssueCosts, back: float) -> None:
    scalar = instruction.base.startswith("s_")
    # gfx11 counts stores apart.
    apart = "store" in instruction.base and not costs.matrix_overlaps_valu
    queue = wave.on_the_way["lgkmcnt" if scalar else "vscnt" if apart else "vmcnt"]
    queue.append(max([back, *queue[-1:]]) if not scalar else back)
    queue.sort()


@dataclass(frozen=True)
class LoneWaveEstimate:
    """each: clocks of a lone wave for ``per`` units of its work; launch: what the wave takes besides."""

    each: float
    launch: float
    per: int
    latency: int


def estimate(kernel: Kernel, code_object: isa.CodeObject, latency: int = MEMORY_LATENCY) -> LoneWaveEstimate | None:
    """By difference of two lengths, for kernels whose waves loop over their work; None for the others.

    decode: clocks for a tile of 16 tokens of the wave's own, so that a workgroup of n waves takes 16 * n tokens in that
    time; prefill_prefix: for 16 tokens that all waves share; reduce: for one split. Of the first wave of a launch.
    """
    kind = kernel.variant.kind.name
    if kind not in ("decode", "reduce", "prefill_prefix"):
        return None
    shorter, longer = METHODS[kind].lengths
    at_a_time = per = 1 if kind == "reduce" else TILE
    if kind == "decode":
        # Whole tiles for each wave.
        at_a_time = TILE * kernel.waves
        shorter = math.lcm(shorter, at_a_time)
        longer = 2 * shorter
    rate, launch = by_length(kernel, code_object, METHODS[kind].workload, (shorter, longer), latency)
    return LoneWaveEstimate(rate * at_a_time, launch, per, latency)


def by_length(
    kernel: Kernel,
    code_object: isa.CodeObject,
    workload: Callable[[Subject, int], Workload],
    lengths: tuple[int, int],
    latency: int = MEMORY_LATENCY,
) -> tuple[float, float]:
    """Clocks of the first wave of a launch for one more of a length, and those that it takes besides."""
    shorter, longer = lengths
    few, many = (_wave_clocks(kernel, code_object, workload(kernel.subject, length), latency) for length in lengths)
    rate = (many - few) / (longer - shorter)
    return rate, few - rate * shorter


def _wave_clocks(kernel: Kernel, code_object: isa.CodeObject, workload: Workload, latency: int) -> float:
    trace = isa.WaveTrace()
    interpreter = Interpreter(isa.Options(check_races=False, watch=trace))
    interpreter.run(code_object, workload.launch, workload.tensors, written(kernel.subject.variant.arguments))
    program, arch = isa.program_of(code_object), kernel.variant.arch
    return lone_clocks(((i, program.class_of(i)) for i in trace), arch.costs, arch.wave_size, latency)

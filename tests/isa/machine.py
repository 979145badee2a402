"""A few waves at hand: registers to set and look at, and instruction texts to run on them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from octave_gen.isa import Memory
from octave_gen.isa.counters import Tally
from octave_gen.isa.decode import EXEC, VCC, parse
from octave_gen.isa.launch import Chunk, Options
from octave_gen.isa.lds import LocalMemory
from octave_gen.isa.memory import AddressSpace
from octave_gen.isa.operands import Chip
from octave_gen.isa.program import compile_instruction
from octave_gen.isa.registers import Batch

ARCHS = ("gfx942", "gfx1100")
"""Those that the tests of every chip run on; ``Machine`` takes gfx950 too."""
Array = np.ndarray[Any, Any]

written_texts: dict[tuple[str, int], set[str]] = defaultdict(set)
"""What was run, by arch and lanes of a wave."""


class Machine:
    """``waves`` waves of workgroups of ``waves_per_workgroup``, all registers random, all lanes on."""

    def __init__(
        self,
        arch: str,
        *,
        waves: int = 2,
        waves_per_workgroup: int = 2,
        lanes: int | None = None,
        lds: int = 1024,
        scratch: int = 64,
        memory: Memory | None = None,
        seed: int = 0,
        check_races: bool = False,
    ) -> None:
        self.arch = arch
        gfx9 = arch != "gfx1100"
        self.lanes = lanes or (64 if gfx9 else 32)
        self.waves = waves
        self.chip = Chip(gfx9, self.lanes, arch == "gfx950")
        random = self.random = np.random.default_rng(seed)
        workgroups = -(-waves // waves_per_workgroup)
        local = LocalMemory(lds, workgroups, waves_per_workgroup, random, check_races)
        space = AddressSpace(memory.regions if memory else ())
        self.tally = Tally()
        chunk = Chunk(space, local, self.tally, Options(), 0, 0)

        def registers(*shape: int) -> Array:
            return random.integers(0, 1 << 32, shape, np.uint32)

        self.batch = Batch(
            chunk,
            0,
            registers(32, waves, self.lanes),
            registers(32, waves, self.lanes),
            registers(128, waves),
            np.zeros(waves, np.bool_),
            np.arange(waves) % waves_per_workgroup,
            np.arange(waves) // waves_per_workgroup,
            random.integers(0, 256, (waves, self.lanes, scratch), np.uint8),
            0,
        )
        self.exec = np.ones((waves, self.lanes), np.bool_)

    @property
    def v(self) -> Array:
        """Vector registers [32, waves, lanes], uint32."""
        return self.batch.v.u32

    @property
    def a(self) -> Array:
        return self.batch.a.u32

    @property
    def s(self) -> Array:
        """Scalar registers [128, waves], uint32."""
        return self.batch.s.u32

    @property
    def exec(self) -> Array:
        return self.batch.exec

    @exec.setter
    def exec(self, mask: Array) -> None:
        self.batch.set_mask(EXEC, np.broadcast_to(mask, (self.waves, self.lanes)))

    @property
    def vcc(self) -> Array:
        return self.batch.mask(VCC)

    @vcc.setter
    def vcc(self, mask: Array) -> None:
        self.batch.set_mask(VCC, np.broadcast_to(mask, (self.waves, self.lanes)))

    def some_lanes(self) -> Array:
        """Switches random lanes off and returns the mask."""
        self.exec = self.random.random((self.waves, self.lanes)) < 0.5
        return self.exec.copy()

    def run(self, *texts: str) -> None:
        """Runs instructions one after the other."""
        with np.errstate(all="ignore"):
            for text in texts:
                instruction = parse(text)
                written_texts[self.arch, self.lanes].add(instruction.text)
                step = compile_instruction(instruction, self.chip)
                if step is not None:
                    step(self.batch)

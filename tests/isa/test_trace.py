"""What one wave of a launch executed."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Compile, Launcher

from octave_gen.isa import WaveTrace

# A wave of workgroup b goes round b + its own index times.
KERNELS = """
KERNEL(256) loops(u32* out) {
  const u32 rounds = __builtin_amdgcn_readfirstlane(thread() / 64) + block();
  for (u32 i = 0; i < rounds; ++i) __atomic_fetch_add(out + block(), 1u, __ATOMIC_RELAXED);
}
"""


@pytest.mark.parametrize(("workgroup", "wave"), [(0, 0), (0, 1), (2, 0), (2, 3), (40, 2)])
def test_the_trace_is_of_the_one_wave(compile_kernels: Compile, workgroup: int, wave: int) -> None:
    launcher = Launcher(compile_kernels("gfx942", KERNELS))
    trace = WaveTrace(workgroup, wave)
    # 300 workgroups of 4 waves are several chunks
    launcher("loops", np.zeros(300, np.uint32), grid=300, threads=256, watch=trace)
    executed = list(trace)
    atomics = [instruction for instruction in executed if "atomic" in instruction.base]
    assert len(atomics) == workgroup + wave
    assert executed[0].address == launcher.code_object.kernel("loops").entry
    assert executed[-1].base == "s_endpgm"


def test_nothing_is_traced_of_a_wave_that_is_not_there(compile_kernels: Compile) -> None:
    trace = WaveTrace(workgroup=9)
    Launcher(compile_kernels("gfx942", KERNELS))("loops", np.zeros(4, np.uint32), grid=4, watch=trace)
    assert not list(trace)

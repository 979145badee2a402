"""A functional interpreter for code objects of gfx942, gfx950 and gfx1100, in numpy.

It executes what clang compiled and counts what it does. It shows functional semantics: no hazards, no caches, no
timing, no races between workgroups, and no claim about hardware.
"""

from octave_gen.isa.counters import CLASSES, Counters
from octave_gen.isa.disassembly import Disassembler, which
from octave_gen.isa.elf import CodeObject, KernelArgument, KernelDescriptor, load
from octave_gen.isa.execute import execute
from octave_gen.isa.faults import Place
from octave_gen.isa.launch import Options
from octave_gen.isa.memory import Memory, Region
from octave_gen.isa.program import program_of, uncovered
from octave_gen.isa.trace import WaveTrace

__all__ = [
    "CLASSES",
    "CodeObject",
    "Counters",
    "Disassembler",
    "KernelArgument",
    "KernelDescriptor",
    "Memory",
    "Options",
    "Place",
    "Region",
    "WaveTrace",
    "execute",
    "load",
    "program_of",
    "uncovered",
    "which",
]

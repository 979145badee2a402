"""The compile of kernels in FlyDSL: a child process that imports flydsl once and forks for every unit.

FlyDSL says of much that goes wrong nothing, or no more than a line on stderr. So: only chips that it is known to have
(``tool``), no cache, a lint of the kernels (``lint``), a process of its own for every unit whose exit status and output
are both looked at (``child``, ``unit``), and a look at every code object (``octave_gen.build.resources``).
"""

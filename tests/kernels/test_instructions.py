"""The instructions that the templates compile to: address spaces, dot products and look-ups, at a glance."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest

from octave_gen import plan, spec
from octave_gen.build import render, toolchain

SHOWN = (
    "store_octave_k3v4_h256r64_plain_portable",
    "rotate_h256_portable",
    "decode_octave_k3v4_h256r64_g6_q4_portable",
    "decode_octave_k3v3_compact_h128r64_g16_q4_portable",
    "reduce_h256_portable",
)


@pytest.fixture(scope="module", params=["gfx942", "gfx1100"])
def mnemonics(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """Mnemonic counts of some units, keyed by unit name without the arch."""
    arch = request.param
    compiler = toolchain.find("ziglang")
    folder = tmp_path_factory.mktemp(arch)
    counts = {}
    for unit in plan.units(plan.variants(spec.shipped(), [arch])):
        stem = unit.name.removesuffix(f"_{arch}")
        if stem not in SHOWN:
            continue
        source = folder / f"{unit.name}.hip"
        source.write_text(render.render_unit(unit))
        assembly = source.with_suffix(".s")
        flags = [*toolchain.device_flags(arch), "-I", str(render.include_dir()), "-S", "-o", str(assembly)]
        subprocess.run([*compiler.command, *flags, str(source)], check=True)
        counts[stem] = Counter(re.findall(r"^\t([a-z]+_[a-z0-9_]+)", assembly.read_text(), re.MULTILINE))
    assert sorted(counts) == sorted(SHOWN)
    return counts


def _matching(counts: Counter[str], prefix: str) -> int:
    return sum(n for name, n in counts.items() if name.startswith(prefix))


def test_no_generic_pointer_and_no_scratch(mnemonics: dict[str, Counter[str]]) -> None:
    for counts in mnemonics.values():
        assert _matching(counts, "global_load") > 0
        assert _matching(counts, "flat_") == 0
        assert _matching(counts, "scratch_") == 0
        assert _matching(counts, "buffer_") == 0


def test_decode_reads_the_packed_cache_with_byte_permutes_and_integer_dot_products(
    mnemonics: dict[str, Counter[str]],
) -> None:
    for name, counts in mnemonics.items():
        is_decode = name.startswith("decode")
        # gfx942 has the form that adds to its destination, v_dot4c, too.
        assert (_matching(counts, "v_dot4") > 0) == is_decode
        if is_decode:
            assert _matching(counts, "v_perm_b32") > 0

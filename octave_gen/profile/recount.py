"""Counts ``kernels/launch_costs.csv`` anew from built kernels: ``python -m octave_gen.profile.recount [--out DIR]``.

One line for each tier, head size, number of query rows and number of waves; on the portable tier for one cache dtype
that stands for all: its clocks are those of block K, and compact K takes 0 to 19 % less of them at heads of 256
(`octave-gen profile --filter 'decode_*_h256r64_*_f16_portable_*'`). Lines of kernels that are not built are left as
they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from octave_gen import isa, paths, plan, spec
from octave_gen.arch import PORTABLE, Arch
from octave_gen.kernels import launch_costs
from octave_gen.kernels.launch_costs import LaunchCosts
from octave_gen.plan import Variant
from octave_gen.profile import built, latency, measure, model, workload
from octave_gen.profile.counts import Counts

KINDS = ("decode", "reduce", "prefill_prefix", "prefill_chunk")
SCALAR = "f16"
PORTABLE_DTYPE = "octave_k3v3"
MERGED = (16, 48)
"""Splits of a prefix, of the two launches that prefill_chunk's merge is counted on."""
VECTOR_BYTES = 64
"""That a CU's vector cache gives per clock: the CDNA3 and RDNA3 documents."""


def rows_of(variant: Variant) -> int:
    """Query vectors that a workgroup of the variant serves."""
    served = variant.geometry.grid[0].per_workgroup
    return (variant.shape.gqa_group or 1) * served


def units_of(variant: Variant, waves: int) -> int:
    """Units of work of a pass of a workgroup of ``waves``: tokens of its tile, or of a tile for each wave; splits."""
    constants = variant.tier.constants(variant.shape, variant.arch)
    tokens = {"reduce": waves, "prefill_prefix": latency.TILE, "prefill_chunk": 1}
    return tokens.get(variant.kind.name, constants.get("tile_tokens", latency.TILE * waves))


def representatives(planned: Iterable[Variant]) -> list[Variant]:
    """The variants that are counted, one for each line, or for its kernels; of rotary dims that with the fewest."""
    chosen: dict[tuple[str, str, str, int, str, int], Variant] = {}
    for variant in sorted(planned, key=lambda variant: variant.shape.rotary_dims or 0):
        portable = variant.tier.name == PORTABLE
        dtype = variant.shape.cache_dtype
        if variant.kind.name not in KINDS or variant.shape.scalar != SCALAR:
            continue
        if portable and dtype not in (None, PORTABLE_DTYPE):
            continue
        if variant.kind.name == "decode" and variant.geometry.grid[0].per_workgroup != variant.shape.query_group:
            continue  # its launches of one group have several workgroups
        chosen.setdefault(_key(variant), variant)
    return list(chosen.values())


def _key(variant: Variant) -> tuple[str, str, str, int, str, int]:
    dtype = variant.shape.cache_dtype if variant.tier.name != PORTABLE else None
    kind, arch, tier = variant.kind.name, variant.arch.name, variant.tier.name
    return kind, arch, tier, variant.shape.head_size, dtype or launch_costs.ANY, rows_of(variant)


def count(kernel: built.Kernel) -> LaunchCosts:
    """The line of one kernel."""
    variant, code_object = kernel.variant, isa.load(kernel.code_object)
    arch, waves, units = variant.arch, kernel.waves, units_of(variant, kernel.waves)
    if variant.kind.name == "prefill_chunk":
        counted = measure.count(kernel, code_object, workload.merge, MERGED)
        rate, launch = latency.by_length(kernel, code_object, workload.merge, MERGED)
    else:
        counted = measure.profile(kernel, code_object).counted
        alone = latency.estimate(kernel, code_object)
        assert alone is not None
        launch, rate = alone.launch, alone.each
        if variant.kind.name != "reduce":
            rate /= alone.per * (waves if variant.kind.name == "decode" else 1)
    # The SIMDs that a workgroup runs on are those of several CUs of the model on gfx11.
    share = arch.costs.simds / arch.lds_simds
    return LaunchCosts(
        *_key(variant),
        waves=waves,
        occupancy=kernel.resources["occupancy"],
        units=units,
        launch_issue=_busiest(counted.prologue, arch) * share,
        pass_issue=_busiest(counted.each, arch) * share * units,
        launch_latency=launch,
        pass_latency=rate * units,
    )


def _busiest(counts: Counts, arch: Arch) -> float:
    """Clocks of the busiest part of a CU, HBM apart."""
    terms = model.clocks(counts, 0.0, arch.costs).terms
    return max(counts.vmem_bytes / VECTOR_BYTES, *(value for name, value in terms.items() if name != "HBM"))


def recount(
    selected: Sequence[Variant], planned: Sequence[Variant], out: Path, progress: Callable[[str], None]
) -> list[LaunchCosts]:
    """The lines of ``selected``, from the libraries in ``out``."""
    lines = []
    kernels = built.kernels(selected, planned, out)
    for number, kernel in enumerate(kernels, 1):
        lines.append(count(kernel))
        progress(f"[{number}/{len(kernels)}] {kernel.name}")
    return lines


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=launch_costs.RECOUNT, description="Count launch_costs.csv anew.")
    parser.add_argument("--out", type=Path, default=paths.default_out(), help="folder of the build")
    parser.add_argument("--filter", default=None, help="only variants whose name matches this glob")
    given = parser.parse_args(arguments)
    planned = plan.variants(spec.shipped(), on_request=True)
    wanted = {variant.name for variant in plan.select(planned, given.filter)}
    chosen = [variant for variant in representatives(planned) if variant.name in wanted]
    lines = recount(chosen, planned, given.out, lambda line: print(line, file=sys.stderr))
    keys = {line.key for line in lines}
    kept = [line for line in launch_costs.read() if line.key not in keys] if launch_costs.FILE.exists() else []
    launch_costs.write([*kept, *lines])


if __name__ == "__main__":
    main(sys.argv[1:])

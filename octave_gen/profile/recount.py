"""Counts ``kernels/launch_costs.csv`` anew from built kernels: ``python -m octave_gen.profile.recount [--out DIR]``.

One line for each tier, head size and number of query rows; on the portable tier, whose cost the cache dtype changes by
4 % at most, for one cache dtype that stands for all. Lines of kernels that are not built are left as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from octave_gen import isa, paths, plan, spec
from octave_gen.kernels import launch_costs
from octave_gen.kernels.launch_costs import LaunchCosts
from octave_gen.plan import Variant
from octave_gen.profile import built, latency, measure, model

KINDS = ("decode", "reduce")
SCALAR = "f16"
PORTABLE_DTYPE = "octave_k3v3"


def rows_of(variant: Variant) -> int:
    """Query vectors that a workgroup of the variant serves."""
    if variant.kind.name != "decode":
        return 1
    return (variant.shape.gqa_group or 1) * variant.geometry.grid[0].per_workgroup


def units_of(variant: Variant) -> int:
    """Units of work of a pass of a whole workgroup: of its tile, or a tile for each of its waves; splits for reduce."""
    constants = variant.tier.constants(variant.shape, variant.arch)
    if variant.kind.name == "reduce":
        return constants["waves"]
    return constants.get("tile_tokens", latency.TILE * variant.geometry.threads // variant.arch.wave_size)


def representatives(planned: Iterable[Variant]) -> list[Variant]:
    """The variants that are counted, one for each line."""
    chosen: dict[tuple[str, str, str, int, str, int], Variant] = {}
    for variant in planned:
        portable = variant.tier.name == "portable"
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
    dtype = variant.shape.cache_dtype if variant.tier.name != "portable" else None
    kind, arch, tier = variant.kind.name, variant.arch.name, variant.tier.name
    return kind, arch, tier, variant.shape.head_size, dtype or launch_costs.ANY, rows_of(variant)


def count(kernel: built.Kernel) -> LaunchCosts:
    """The line of one kernel."""
    variant = kernel.variant
    arch, waves, units = variant.arch, variant.geometry.threads // variant.arch.wave_size, units_of(variant)
    code_object = isa.load(kernel.code_object)
    found = measure.profile(kernel, code_object)
    alone = latency.estimate(kernel, code_object)
    assert alone is not None
    # The SIMDs that a workgroup runs on are those of several CUs of the model on gfx11.
    share = arch.costs.simds / arch.lds_simds
    before = model.clocks(found.counted.prologue, 0.0, arch.costs)
    tokens = alone.per * waves if variant.kind.name == "decode" else 1
    return LaunchCosts(
        *_key(variant),
        waves=waves,
        occupancy=kernel.resources["occupancy"],
        units=units,
        launch_issue=_busiest(before) * share,
        pass_issue=_busiest(found.clocks) * share * units,
        launch_latency=alone.launch,
        pass_latency=alone.each * units / tokens,
    )


def _busiest(clocks: model.Clocks) -> float:
    return max(value for name, value in clocks.terms.items() if name != "HBM")


def recount(
    selected: Sequence[Variant], planned: Sequence[Variant], out: Path, progress: Callable[[str], None]
) -> list[LaunchCosts]:
    """The lines of ``selected``, from the libraries in ``out``."""
    lines = []
    for number, kernel in enumerate(built.kernels(selected, planned, out), 1):
        lines.append(count(kernel))
        progress(f"[{number}/{len(selected)}] {kernel.variant.name}")
    return lines


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=launch_costs.RECOUNT, description="Count launch_costs.csv anew.")
    parser.add_argument("--out", type=Path, default=paths.default_out(), help="folder of the build")
    parser.add_argument("--filter", default=None, help="only variants whose name matches this glob")
    given = parser.parse_args(arguments)
    planned = plan.variants(spec.shipped())
    wanted = {variant.name for variant in plan.select(planned, given.filter)}
    chosen = [variant for variant in representatives(planned) if variant.name in wanted]
    lines = recount(chosen, planned, given.out, lambda line: print(line, file=sys.stderr))
    keys = {line.key for line in lines}
    kept = [line for line in launch_costs.read() if line.key not in keys] if launch_costs.FILE.exists() else []
    launch_costs.write([*kept, *lines])


if __name__ == "__main__":
    main(sys.argv[1:])

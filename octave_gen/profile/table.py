"""Profiles as an aligned table of plain text, and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from octave_gen.arch import Arch
from octave_gen.profile.budget import measured
from octave_gen.profile.measure import Profile
from octave_gen.profile.model import STATEMENT

COLUMNS: Final = (
    *("per", "valu", "trans", "matrix", "salu", "vmem", "lds"),
    *("hbm-clk", "valu-clk", "matrix-clk", "lds-clk", "share", "serial", "bound"),
    *("vgprs", "waves", "prologue"),
)
ALONE_COLUMNS: Final = ("alone", "alone-launch")
ALONE_LEGEND: Final = (
    "alone: clocks of a wave that has its SIMD to itself, for 16 tokens of its own (decode), 16 tokens that all waves "
    "share (prefill_prefix) or a split (reduce), with what it waits for; alone-launch: its clocks besides; an in-order "
    "estimate with memory that answers after {latency} clocks"
)
LEGEND: Final = (
    "for one unit of work (per): instructions of waves (trans is in valu), then clocks of one CU; share: of the HBM "
    "roofline; serial: without overlap of valu and matrix; waves: per SIMD; prologue: valu of a launch besides"
)

CENTERED_LEGEND: Final = "store and rotate subtract a center; no budget is for that"


def archs_of(profiles: Sequence[Profile]) -> list[Arch]:
    """Their chips, each once."""
    return list({one.kernel.variant.arch.name: one.kernel.variant.arch for one in profiles}.values())


def calibration(arch: Arch) -> str:
    """What the model's figures of a chip were held against, in words."""
    return f"calibrated: {arch.costs.calibration}" if arch.costs.calibration else "not calibrated: no public timings"


def number(value: float) -> str:
    """A count or a number of clocks with at least three digits."""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 1000 else f"{value:.0f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def table(profiles: Sequence[Profile]) -> str:
    """One line for each profile under a line of headings; lines of explanation begin with ``#``."""
    estimates = [one.alone for one in profiles if one.alone is not None]
    rows: list[tuple[str, ...]] = [("variant", *COLUMNS), *(_row(one) for one in profiles)]
    if estimates:
        rows[0] = (*rows[0], *ALONE_COLUMNS)
        rows[1:] = [(*row, *_alone(one)) for row, one in zip(rows[1:], profiles, strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [f"# {STATEMENT}", f"# {LEGEND}"]
    if estimates:
        lines.append(f"# {ALONE_LEGEND.format(latency=estimates[0].latency)}")
    if any(one.centered for one in profiles):
        lines.append(f"# {CENTERED_LEGEND}")
    lines += [f"# {arch.name}, as {arch.costs.product}: {calibration(arch)}" for arch in archs_of(profiles)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join((row[0].ljust(widths[0]), *cells)))
    return "\n".join(lines) + "\n"


def _row(one: Profile) -> tuple[str, ...]:
    each, clocks, resources = one.counted.each, one.clocks, one.kernel.resources
    counts = (each.valu, each.transcendental, each.matrices, each.salu, each.vmem, each.lds)
    terms = (clocks.hbm, clocks.valu, clocks.matrix, clocks.lds)
    return (
        one.name,
        one.work,
        *map(number, (*counts, *terms)),
        percent(clocks.share),
        percent(clocks.share_without_overlap),
        clocks.bound,
        str(resources["vgprs"]),
        str(resources["occupancy"]),
        f"{one.counted.prologue.valu:.0f}",
    )


def _alone(one: Profile) -> tuple[str, str]:
    return (f"{one.alone.each:.0f}", f"{one.alone.launch:.0f}") if one.alone else ("-", "-")


def data(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Everything that is known of the profiles, for JSON."""
    return {
        "model": {
            "statement": STATEMENT,
            "archs": {
                arch.name: {
                    **asdict(arch.costs),
                    "hbm_bytes": arch.costs.hbm_bytes,
                    "calibration": calibration(arch),
                }
                for arch in archs_of(profiles)
            },
        },
        "variants": [_data(one) for one in profiles],
    }


def _data(one: Profile) -> dict[str, Any]:
    clocks, counted = one.clocks, one.kernel.variant.counted
    return {
        "name": one.name,
        "per": one.work,
        "center": one.centered,
        "lengths": list(one.lengths),
        "counts": asdict(one.counted.each),
        "prologue": asdict(one.counted.prologue),
        "clocks": {**asdict(clocks), "issue": clocks.issue},
        "alone": asdict(one.alone) if one.alone else None,
        "share": clocks.share,
        "share_without_overlap": clocks.share_without_overlap,
        "bound": clocks.bound,
        "resources": dict(one.kernel.resources),
        "budget": {count: {"measured": value, "bound": vars(counted)[count]} for count, value in measured(one).items()},
    }

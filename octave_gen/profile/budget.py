"""Counted budgets of the spec against what was counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from octave_gen.errors import OctaveError, wrong_request
from octave_gen.profile.measure import Profile
from octave_gen.spec.fields import count_key


def measured(profile: Profile) -> dict[str, float]:
    """What the fields of ``CountedBudget`` bound, by their names."""
    return {"valu": profile.counted.each.valu, "clocks": profile.clocks.issue}


def exceeded(profile: Profile) -> Iterator[str]:
    """A line for each counted budget that the kernel exceeds."""
    variant = profile.kernel.variant
    for count, value in measured(profile).items():
        bound = getattr(variant.counted, count)
        if bound is not None and value > bound:
            key = count_key(count, variant.kind.name)
            yield f"{profile.name}: {key} is {value:.2f}, at most {bound} allowed ({', '.join(variant.specs)})"


def check(profiles: Sequence[Profile]) -> int:
    """Compares all of them, and returns how many have a counted budget.

    Raises OctaveError with every budget that is exceeded, and one when there is none to compare with.
    """
    bounded = [one for one in profiles if any(bound is not None for bound in vars(one.kernel.variant.counted).values())]
    if not bounded:
        keys = ", ".join(sorted({count_key("valu", one.kernel.variant.kind.name) for one in profiles}))
        raise wrong_request(
            "no spec bounds what these kernels execute", where="--budget", hint=f"give a [[budget]] the key {keys}"
        )
    lines = [line for one in bounded for line in exceeded(one)]
    if lines:
        count = "1 counted budget is" if len(lines) == 1 else f"{len(lines)} counted budgets are"
        raise OctaveError(f"{count} exceeded:\n  " + "\n  ".join(lines))
    return len(bounded)

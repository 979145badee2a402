"""Target ids: how a driver, a bundle or a code object names the chip and the features that it was built for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from octave_gen.errors import OctaveError


@dataclass(frozen=True)
class TargetId:
    """A parsed target id such as ``gfx942:sramecc+:xnack-``; None means the feature is not named (any setting)."""

    arch: str
    sramecc: bool | None = None
    xnack: bool | None = None

    def __str__(self) -> str:
        parts = [self.arch]
        parts += [
            f"{n}{'+' if v else '-'}" for n, v in (("sramecc", self.sramecc), ("xnack", self.xnack)) if v is not None
        ]
        return ":".join(parts)


def parse_target_id(text: str) -> TargetId:
    """Parses the arch name that a driver or a bundle reports; raises OctaveError for anything else."""
    name, *features = text.split(":")
    values: dict[str, bool] = {}
    for feature in features:
        if feature[:-1] not in ("sramecc", "xnack") or feature[-1:] not in ("+", "-") or feature[:-1] in values:
            raise OctaveError(
                f"{text!r} is no target id", where=feature or text, hint="expected e.g. gfx942:sramecc+:xnack-"
            )
        values[feature[:-1]] = feature[-1] == "+"
    if not re.fullmatch(r"gfx[0-9a-f]{3,4}", name):
        raise OctaveError(f"{text!r} is no target id", hint="expected e.g. gfx942:sramecc+:xnack-")
    return TargetId(name, values.get("sramecc"), values.get("xnack"))

"""Verdicts in words and as data."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from octave_gen.kernels import kind_of
from octave_gen.verify import record
from octave_gen.verify.session import Verdict

_EVIDENCE = {
    record.INTERPRETER: "executed and checked in an interpreter",
    record.GPU: "run and checked on a GPU",
}


def data(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One object per variant: its entry of the record, its name and arch, and whether it was run now."""
    return [
        {**verdict.entry, "arch": verdict.arch, "name": verdict.name, "fresh": verdict.fresh} for verdict in verdicts
    ]


def failures(verdicts: Sequence[Verdict], out: Path | None) -> Iterator[str]:
    """For each variant that failed: the smallest failing case, what is wrong, and the command that repeats it."""
    for verdict in verdicts:
        if verdict.failure is None:
            continue
        yield f"FAILED {verdict.name}"
        yield f"  case {verdict.failure.case}"
        yield from (f"  {line}" for problem in verdict.failure.problems for line in problem.splitlines())
        yield f"  again: {repeat(verdict, out)}"


def repeat(verdict: Verdict, out: Path | None) -> str:
    """The command that runs the smallest failing case of ``verdict`` once more."""
    assert verdict.failure is not None
    words = ["octave-gen", "verify", "--arch", verdict.arch, "--filter", verdict.name]
    words += ["--seed", str(verdict.entry["seed"]), "--case", str(verdict.failure.case)]
    words += ["--executor", record.GPU] if verdict.entry["executor"]["name"] == record.GPU else []
    return shlex.join(words + (["--out", str(out)] if out else []))


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A line per kind of kernel: how many passed, and the worst of each error and the sum of each count."""
    kinds: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        kinds.setdefault(str(kind_of(verdict.name)), []).append(verdict)
    width = max(len("kernel "), *(len(kind) for kind in kinds)) + 1
    yield f"{'kernel':{width}}{'variants':>9}{'passed':>8}  worst"
    for kind, group in kinds.items():
        passed = sum(verdict.passed for verdict in group)
        first, *rest = _worst(group) or ["equal bit for bit"]
        yield f"{kind:{width}}{len(group):9}{passed:8}  {first}"
        yield from (" " * (width + 19) + line for line in rest)


def summary(verdicts: Sequence[Verdict]) -> str:
    """``164 of 164 variants passed: executed and checked in an interpreter (0.1.0)``."""
    executor = verdicts[0].entry["executor"]
    what = _EVIDENCE[executor["name"]]
    on = ", ".join(executor[key] for key in ("device", "version", "when") if key in executor)
    passed = sum(verdict.passed for verdict in verdicts)
    return f"{passed} of {len(verdicts)} variants passed: {what} ({on})"


def _worst(group: Sequence[Verdict]) -> list[str]:
    entries = [verdict.entry for verdict in group]
    errors = dict.fromkeys(name for entry in entries for name in entry["errors"])
    counts = dict.fromkeys(name for entry in entries for name in entry["counts"])
    return [
        *(f"{name}: {max(entry['errors'].get(name, 0.0) for entry in entries):.3g}" for name in errors),
        *(f"{name}: {sum(entry['counts'].get(name, 0) for entry in entries)}" for name in counts),
    ]

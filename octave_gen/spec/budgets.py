"""The ``[[budget]]`` tables of a spec: their values, and that exactly one of them selects each variant."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from octave_gen.arch import ARCHS, Arch
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import SCALARS, KernelKind, Shape
from octave_gen.spec.fields import (
    COUNTS,
    RESOURCES,
    SELECTORS,
    Checked,
    check_table,
    count_fields,
    count_key,
    tiers_field,
)
from octave_gen.spec.model import Budget, BudgetRule, CountedBudget
from octave_gen.spec.report import Problem
from octave_gen.spec.shape import kinds_of

SHAPE_KEYS = {
    "cache_dtypes": "cache_dtype",
    "gqa_groups": "gqa_group",
    "query_groups": "query_group",
    "encoders": "encoder",
}
"""The selectors of a budget that are keys of the spec too, and the fields of a Shape that they select by."""

Value = str | int | None
Cell = tuple[Value, Value, Value, Value]
"""A cache_dtype, a gqa_group, a query_group and an encoder; None where a kernel does not depend on it."""
_UNKNOWN: Cell = (None, None, None, None)


@dataclass(frozen=True)
class Selection:
    """What one budget selects; None where it cannot be known because the key is wrong."""

    key: str
    kernel: str | None
    arch: str | None
    shapes: tuple[frozenset[Value] | None, ...]
    tiers: frozenset[str] | None

    def certain(self, kind: KernelKind) -> bool:
        """Whether all is known that decides which variants of ``kind`` the budget selects."""
        pairs = zip(self.shapes, SHAPE_KEYS.values(), strict=True)
        known = all(values is not None or field not in kind.fields for values, field in pairs)
        return known and self.kernel == kind.name and self.arch is not None and self.tiers is not None

    def concerns(self, kernel: str, arch: str) -> bool:
        """Whether the budget is one of the kernel on the chip, or could be if the mistakes in it were corrected."""
        return self.kernel in (kernel, None) and self.arch in (arch, None)

    def may_select(self, tier: str, cell: Cell) -> bool:
        """Whether the budget selects the cell in the tier of what it concerns, or could if it were corrected."""
        selected = (
            known is None or value is None or value in known for known, value in zip(self.shapes, cell, strict=True)
        )
        return (self.tiers is None or tier in self.tiers) and all(selected)


def check_budgets(spec: Checked) -> tuple[list[BudgetRule], list[Problem]]:
    """The rules of a spec whose own keys are checked, and every problem; the rules are complete without problems."""
    rules: list[BudgetRule] = []
    problems: list[Problem] = []
    selections: list[Selection] = []
    for index, table in enumerate(spec.values.get("budget", [])):
        rule, selection, found = _check_budget(table, f"budget[{index}]", spec)
        rules += [rule] if rule else []
        selections.append(selection)
        problems += found
    if "budget" in spec.values:
        problems += _coverage(selections, spec)
    return rules, problems


def _check_budget(
    table: Mapping[str, Any], key: str, spec: Checked
) -> tuple[BudgetRule | None, Selection, list[Problem]]:
    chip = ARCHS.get(table["arch"]) if isinstance(table.get("arch"), str) else None
    kind = KINDS.get(table["kernel"]) if isinstance(table.get("kernel"), str) else None
    resources = (resource.field(chip) for resource in RESOURCES)
    fields = (*SELECTORS, tiers_field(kind, chip), *resources, *count_fields(kind.name if kind else None))
    checked = check_table(table, fields, prefix=f"{key}.")
    values = checked.values
    kernel, arch = values.get("kernel"), values.get("arch")
    about = f"{kernel} on {arch}" if kernel and arch else None
    found = [*checked.problems, *_contradictions(values, key, spec)]
    selection = Selection(key, kernel, arch, _shapes(checked, spec), _tiers(checked))
    if found:
        return None, selection, [Problem(p.key, p.what, p.allowed, p.fix, about) for p in found]
    bounds = {resource.key: values[resource.key] for resource in RESOURCES if resource.key in values}
    shapes = {name: tuple(values.get(name, ())) for name in SHAPE_KEYS}
    counted = CountedBudget(**{count: values.get(count_key(count, str(kernel))) for count in COUNTS})
    rule = BudgetRule(
        kernel=str(kernel),
        arch=str(arch),
        budget=Budget(**bounds),
        counted=counted,
        tiers=tuple(values.get("tiers", ())),
        **shapes,
    )
    return rule, selection, []


def _contradictions(values: Mapping[str, Any], key: str, spec: Checked) -> Iterator[Problem]:
    """What is right by itself and impossible with the rest of the budget or of the spec."""
    kernel, arch, known_archs = values.get("kernel"), values.get("arch"), spec.values.get("archs")
    if arch and known_archs and arch not in known_archs:
        yield Problem(f"{key}.arch", f"the spec does not name {arch} in archs", ", ".join(known_archs))
    kernels = spec.values.get("kernels")
    if kernel and kernels and kernel not in kernels:
        yield Problem(f"{key}.kernel", f"the spec does not name {kernel} in kernels", ", ".join(kernels))
    for name, field in SHAPE_KEYS.items():
        if name not in values:
            continue
        if kernel and field not in KINDS[kernel].fields:
            yield Problem(f"{key}.{name}", f"{kernel} kernels do not depend on {field}", fix="leave the key out")
        elif name in spec.values:
            known = spec.values[name]
            for index, value in enumerate(values[name]):
                if value not in known:
                    what = f"the spec does not name {value} in {name}"
                    yield Problem(f"{key}.{name}[{index}]", what, ", ".join(map(str, known)))
    if values.get("agprs", 0) > values.get("vgprs", float("inf")):
        yield Problem(f"{key}.agprs", "more than vgprs, which counts the AGPRs too", f"0 to {values['vgprs']}")


def _shapes(budget: Checked, spec: Checked) -> tuple[frozenset[Value] | None, ...]:
    """What a budget selects by each of its selectors: its own values, or without them all of the spec's."""

    def of(name: str) -> frozenset[Value] | None:
        if name in budget.doubtful:
            return None
        values = budget.values.get(name, spec.values.get(name))
        return frozenset(values) if values else None

    return tuple(of(name) for name in SHAPE_KEYS)


def _tiers(budget: Checked) -> frozenset[str] | None:
    if "tiers" in budget.doubtful:
        return None
    return frozenset(budget.values.get("tiers", (tier.name for kind in KINDS.values() for tier in kind.tiers)))


def _coverage(selections: Sequence[Selection], spec: Checked) -> Iterator[Problem]:
    """Variants that no budget or more than one selects, for each tier that the chip offers.

    Where a key of the spec is wrong that decides a kind's variants, all that is known to be missing is the budget of a
    kind that has none at all.
    """
    kinds = () if "kernels" in spec.doubtful else kinds_of(spec.values)
    for kind, arch in product(kinds, spec.values.get("archs", ())):
        judged = all(name in spec.values for name, field in SHAPE_KEYS.items() if field in kind.fields)
        chip = ARCHS[arch]
        cells = _cells(kind, chip, spec) if judged else {tier.name: [_UNKNOWN] for tier in kind.tiers_on(chip)}
        what = f"{kind.name} on {arch}"
        near = [(s, _picked(s, cells)) for s in selections if s.concerns(kind.name, arch)]
        missing = {
            tier: [cell for cell in held if not any(cell in picked[tier] for _, picked in near)]
            for tier, held in cells.items()
        }
        for tiers, which in _by_tier(missing, cells):
            fix = f'add a [[budget]] with kernel = "{kind.name}", arch = "{arch}"'
            fix += f", tiers = {json.dumps(tiers)}" if tiers else ""
            yield Problem("budget", f"none selects {what}{which}", fix=fix)
        certain = [(s, picked) for s, picked in near if judged and s.certain(kind) and s.arch == arch]
        for (one, of_one), (other, of_other) in combinations(certain, 2):
            shared = {tier: of_one[tier] & of_other[tier] for tier in cells}
            both = {
                tier: [cell for cell in held if cell in shared[tier]] for tier, held in cells.items() if shared[tier]
            }
            for _, which in _by_tier(both, cells):
                fix = "narrow or remove one: exactly one budget selects a variant"
                yield Problem(other.key, f"selects {what}{which}, as {one.key} does", fix=fix)


def _picked(selection: Selection, cells: dict[str, list[Cell]]) -> dict[str, set[Cell]]:
    return {tier: {cell for cell in held if selection.may_select(tier, cell)} for tier, held in cells.items()}


def _cells(kind: KernelKind, chip: Arch, spec: Checked) -> dict[str, list[Cell]]:
    """What each tier of the chip holds of the kind's variants.

    Where none holds any, or the head is not known, the mistake is in the shape: every tier is taken to hold all.
    """
    dtypes, gqa, query, encoders = (
        spec.values[name] if field in kind.fields else (None,) for name, field in SHAPE_KEYS.items()
    )
    cells = list(product(dtypes, gqa, query, encoders))
    tiers = kind.tiers_on(chip)
    held: dict[str, list[Cell]] = {}
    if all(name in spec.values for name in ("family", "head_size", "rotary_dims")):
        shapes = [_shape(kind, cell, spec) for cell in cells]
        for tier in tiers:
            held[tier.name] = [c for c, shape in zip(cells, shapes, strict=True) if tier.refuse(shape, chip) is None]
    return {name: some for name, some in held.items() if some} or {tier.name: cells for tier in tiers}


def _shape(kind: KernelKind, cell: Cell, spec: Checked) -> Shape:
    chosen: dict[str, Any] = dict(zip(SHAPE_KEYS.values(), cell, strict=True))
    if "rotary_dims" in kind.fields:
        chosen["rotary_dims"] = spec.values["rotary_dims"]
    return Shape(spec.values["family"], spec.values["head_size"], next(iter(SCALARS.values())), **chosen)


def _by_tier(
    some: Mapping[str, Sequence[Cell]], cells: Mapping[str, Sequence[Cell]]
) -> Iterator[tuple[list[str], str]]:
    """``some`` in words, once for all tiers of which it is the same; and these tiers, unless they are all."""
    by_words: dict[str, list[str]] = {}
    for tier, part in some.items():
        if part:
            by_words.setdefault(_which(part, cells[tier]), []).append(tier)
    for words, tiers in by_words.items():
        if tiers == list(cells):
            yield [], words
        else:
            yield tiers, f" in the {' and '.join(tiers)} tier{words}"


Groups = tuple[tuple[Value, Value, Value], ...]
"""A gqa_group, a query_group and an encoder each; no kernel depends on groups and on encoders."""


def _which(some: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """``, gqa_group 3, 8 with query_group 1`` for a part of the cells, nothing for all of them.

    Cache dtypes are named where they do not all have the same groups among ``some``.
    """
    if len(some) == len(cells):
        return ""
    by_groups: dict[Groups, list[Value]] = {}
    for dtype in dict.fromkeys(cell[0] for cell in some):
        by_groups.setdefault(tuple(cell[1:] for cell in some if cell[0] == dtype), []).append(dtype)
    every_dtype = list(dict.fromkeys(cell[0] for cell in cells))
    every_group = tuple(dict.fromkeys(cell[1:] for cell in cells))
    parts = []
    for groups, dtypes in by_groups.items():
        words = [f"cache_dtype {_list(dtypes)}"] if dtypes != every_dtype else []
        words += [_show_groups(groups)] if groups != every_group else []
        parts.append(" with ".join(words))
    return ", " + "; ".join(parts)


def _show_groups(groups: Groups) -> str:
    encoders = [encoder for *_, encoder in groups if encoder is not None]
    if encoders:
        return f"encoder {_list(encoders)}"
    by_query: dict[Value, list[Value]] = {}
    for gqa, query, _ in groups:
        by_query.setdefault(query, []).append(gqa)
    by_gqa: dict[tuple[Value, ...], list[Value]] = {}
    for query, gqa_groups in by_query.items():
        by_gqa.setdefault(tuple(gqa_groups), []).append(query)
    parts = (f"gqa_group {_list(gqa)} with query_group {_list(queries)}" for gqa, queries in by_gqa.items())
    return " and ".join(parts)


def _list(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values))

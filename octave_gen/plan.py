"""From specs to variants: one record per kernel symbol, which owns its name, unit, file, tier and budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product

from octave_gen import arch as archs
from octave_gen.arch import Arch
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import SCALARS, Geometry, KernelKind, Language, Shape, Tier
from octave_gen.spec.model import UNCOUNTED, Budget, BudgetRule, CountedBudget, Spec

LONGEST_PATTERN = 200
"""Characters of a glob that are compared with names; the search takes time with their number squared."""


@dataclass(frozen=True)
class Symbol:
    """One kernel of a variant. ``waves``: of a workgroup; ``budget``: what it may take."""

    name: str
    geometry: Geometry
    waves: int
    budget: Budget


@dataclass(frozen=True)
class Variant:
    """One kernel, or two for launches of different sizes. ``budget``: of its resources; ``counted``: of what it
    executes; ``specs``: labels of the spec files that ask for it."""

    kind: KernelKind
    shape: Shape
    tier: Tier
    arch: Arch
    budget: Budget
    specs: tuple[str, ...]
    counted: CountedBudget = UNCOUNTED

    @property
    def name(self) -> str:
        """``<kind>_<dtype>_h<head>r<rotary>_<encoder>_g<group>_q<query group>_<f16|bf16>_<tier>_<arch>``.

        Also the symbol. Parts that the kind does not depend on are left out.
        """
        return self._name(self.shape.scalar)

    @property
    def unit(self) -> str:
        """The name without the query dtype: variants that differ in it alone share one source and one code object."""
        return self._name(None)

    @property
    def source(self) -> str:
        """The generated file, relative to ``generated/``."""
        return f"{self.arch.name}/{self.unit}.{self.tier.language}"

    @property
    def geometry(self) -> Geometry:
        return self.tier.geometry(self.shape, self.arch)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Its kernels, the first under its name; of a workgroup of the second a chip's place need not hold but one."""
        made = []
        for behind, geometry in self.geometry.kernels.items():
            waves, budget = geometry.threads // self.arch.wave_size, self.budget
            if behind:
                occupancy = -(-waves // self.arch.lds_simds)
                budget = replace(
                    budget, vgprs=self.arch.max_vgprs, lds_bytes=self.arch.max_workgroup_lds, occupancy=occupancy
                )
            made.append(Symbol(self.name + behind, geometry, waves, budget))
        return tuple(made)

    def _name(self, scalar: str | None) -> str:
        shape = self.shape
        head = f"h{shape.head_size}" + (f"r{shape.rotary_dims}" if shape.rotary_dims is not None else "")
        group = f"g{shape.gqa_group}" if shape.gqa_group is not None else None
        query_group = f"q{shape.query_group}" if shape.query_group is not None else None
        what = (self.kind.name, shape.cache_dtype, head, shape.encoder, group, query_group)
        return "_".join(part for part in (*what, scalar, self.tier.name, self.arch.name) if part)


def _shapes(spec: Spec, kind: KernelKind) -> Iterable[Shape]:
    choices: dict[str, Sequence[str | int]] = {
        "cache_dtype": spec.cache_dtypes,
        "rotary_dims": (spec.rotary_dims,),
        "gqa_group": spec.gqa_groups,
        "query_group": spec.query_groups,
        "encoder": spec.encoders,
    }
    values = product(*(choices[field] for field in kind.fields))
    for chosen, dtype in product(values, spec.query_dtypes):
        base = Shape(family=spec.family, head_size=spec.head_size, scalar=SCALARS[dtype])
        yield replace(base, **dict(zip(kind.fields, chosen, strict=True)))  # type: ignore[arg-type]


def _rule(spec: Spec, kind: KernelKind, shape: Shape, arch: Arch, tier: Tier) -> BudgetRule:
    def selects(rule: BudgetRule) -> bool:
        return (
            rule.kernel == kind.name
            and rule.arch == arch.name
            and (not rule.cache_dtypes or shape.cache_dtype in rule.cache_dtypes)
            and (not rule.gqa_groups or shape.gqa_group in rule.gqa_groups)
            and (not rule.query_groups or shape.query_group in rule.query_groups)
            and (not rule.encoders or shape.encoder in rule.encoders)
            and (not rule.tiers or tier.name in rule.tiers)
        )

    rules = [rule for rule in spec.budgets if selects(rule)]
    what = f"{kind.name} on {arch.name}" + (f" for {shape.cache_dtype}" if shape.cache_dtype else "")
    if shape.gqa_group is not None:
        what += f" with gqa_group {shape.gqa_group}, query_group {shape.query_group}"
    if shape.encoder is not None:
        what += f" with encoder {shape.encoder}"
    if len(kind.tiers_on(arch)) > 1:
        what += f" in the {tier.name} tier"
    if len(rules) != 1:
        problem = "no budget covers" if not rules else f"{len(rules)} budgets cover"
        raise wrong_request(f"{problem} {what}", where=spec.source, hint="exactly one [[budget]] must select a variant")
    return rules[0]


def _merge(known: Variant, new: Variant) -> Variant:
    if known.shape != new.shape:
        families = dict.fromkeys((known.shape.family, new.shape.family))
        raise wrong_request(
            f"{known.name} would be two kernels: of the families {' and '.join(families)}",
            where=", ".join((*known.specs, *new.specs)),
            hint="build these specs apart, each with an --out of its own",
        )
    if (known.budget, known.counted) != (new.budget, new.counted):
        raise wrong_request(
            f"{known.name} is asked for with two budgets",
            where=", ".join((*known.specs, *new.specs)),
            hint="give both specs the same [[budget]] for this kernel",
        )
    return replace(known, specs=(*known.specs, *(s for s in new.specs if s not in known.specs)))


def variants(specs: Iterable[Spec], arch_names: Sequence[str] = (), *, on_request: bool = False) -> list[Variant]:
    """All variants of ``specs`` on ``arch_names``, sorted by kind and name.

    Without names: on every arch the specs name, chips on request (``Arch.on_request``) only if ``on_request``.

    Raises OctaveError for an unknown arch, for an arch that no spec names, for a required kernel that no tier of the
    chip can hold (all of them in one report) and for budgets that are missing or contradict.
    """
    specs = list(specs)
    for name in arch_names:
        archs.get(name)
        if not any(name in spec.archs for spec in specs):
            raise wrong_request(f"no spec names {name}", where="arch", hint="add it to `archs` of a spec")
    found: dict[str, Variant] = {}
    missing: list[str] = []
    for spec, kind in product(specs, KINDS.values()):
        for arch_name in spec.archs if kind.name in spec.kernels else ():
            chip = archs.get(arch_name)
            if arch_name not in arch_names if arch_names else chip.on_request and not on_request:
                continue
            tiers = kind.tiers_on(chip)
            for shape in _shapes(spec, kind):
                reasons = {tier.name: tier.refuse(shape, chip) for tier in tiers}
                if all(reasons.values()):
                    missing.append(f"{spec.source}: {kind.name} on {arch_name}: " + _why(reasons))
                for tier in tiers:
                    if reasons[tier.name] is None:
                        rule = _rule(spec, kind, shape, chip, tier)
                        new = Variant(kind, shape, tier, chip, rule.budget, (spec.source,), rule.counted)
                        found[new.name] = _merge(found[new.name], new) if new.name in found else new
    if missing:
        lines = "\n  ".join(dict.fromkeys(missing))
        raise wrong_request(f"required kernels do not exist:\n  {lines}", hint="there is no fallback: change the spec")
    if not found:
        raise wrong_request("the plan is empty", hint="the specs name chips on request alone: name one with --arch")
    order = list(KINDS)
    return sorted(found.values(), key=lambda v: (order.index(v.kind.name), v.arch.name, v.name))


def _why(reasons: dict[str, str | None]) -> str:
    return "; ".join(str(reason) for reason in reasons.values()) or "the chip offers no tier of it"


def select(planned: Sequence[Variant], pattern: str | None) -> list[Variant]:
    """The variants whose name matches the glob ``pattern`` (None: all); raises OctaveError when none does."""
    if pattern is None:
        return list(planned)
    chosen = [variant for variant in planned if fnmatchcase(variant.name, pattern)]
    if not chosen:
        near = ", ".join(nearest(pattern, [variant.name for variant in planned]))
        problem = f"no variant matches {pattern[:LONGEST_PATTERN]!r} (did you mean {near}?)"
        raise wrong_request(problem, where="filter", hint="octave-gen list-variants shows all")
    return chosen


def nearest(pattern: str, names: Sequence[str], limit: int = 3) -> list[str]:
    """The names whose parts are most like the words of a glob; the shortest first among equals."""
    from difflib import SequenceMatcher
    from functools import cache
    from heapq import nlargest

    words = re.findall("[a-z0-9]+", pattern[:LONGEST_PATTERN].lower())

    @cache
    def likeness(word: str, part: str) -> float:
        return SequenceMatcher(None, word, part).ratio()

    def rank(name: str) -> tuple[float, int]:
        return sum(max(likeness(word, part) for part in name.split("_")) for word in words), -len(name)

    return nlargest(limit, names, key=rank)


def with_siblings(chosen: Sequence[Variant], planned: Sequence[Variant]) -> list[Variant]:
    """``chosen`` and every variant that shares a unit with one of them: a code object is built whole."""
    wanted = {variant.unit for variant in chosen}
    return [variant for variant in planned if variant.unit in wanted]


@dataclass(frozen=True)
class Unit:
    """One generated source and the code object compiled from it; its variants differ in query dtype alone."""

    name: str
    source: str
    variants: tuple[Variant, ...]

    @property
    def first(self) -> Variant:
        return self.variants[0]

    @property
    def language(self) -> Language:
        """What its kernels are written in; also the suffix of its source."""
        return self.first.tier.language


def units(planned: Iterable[Variant]) -> list[Unit]:
    """The variants gathered by unit, in the order in which units first occur."""
    groups: dict[str, list[Variant]] = {}
    for variant in planned:
        groups.setdefault(variant.unit, []).append(variant)
    made = [Unit(name, group[0].source, tuple(group)) for name, group in groups.items()]
    for unit in made:
        if any(replace(v.shape, scalar="") != replace(unit.first.shape, scalar="") for v in unit.variants):
            raise OctaveError("variants of one unit differ in more than their query dtype", where=unit.name)
    return made

"""From specs to variants: names, counts, order, merging, refusals, units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from octave_gen import plan, spec
from octave_gen.arch import ARCHS
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.kernels import KINDS
from octave_gen.plan import Variant
from octave_gen.spec.model import Budget, BudgetRule, CountedBudget, Spec

BUDGET = Budget(vgprs=128, agprs=0, sgprs=100, lds_bytes=32768, occupancy=1)


def make(
    *,
    source: str = "mine.toml",
    archs: Sequence[str] = ("gfx942",),
    budget: Budget = BUDGET,
    budgets: tuple[BudgetRule, ...] | None = None,
    head_size: int = 256,
    gqa_groups: tuple[int, ...] = (6,),
    query_groups: tuple[int, ...] = (1,),
    query_dtypes: tuple[str, ...] = ("fp16",),
) -> Spec:
    every = tuple(BudgetRule(kind, arch, budget) for kind in KINDS for arch in archs)
    return Spec(
        source=source,
        family="octave",
        cache_dtypes=("octave_k3v4",),
        encoders=("plain",),
        head_size=head_size,
        rotary_dims=64,
        gqa_groups=gqa_groups,
        query_groups=query_groups,
        query_dtypes=query_dtypes,
        archs=tuple(archs),
        budgets=every if budgets is None else budgets,
    )


@pytest.fixture(scope="module")
def catalogue() -> list[Variant]:
    return plan.variants(spec.shipped())


@pytest.fixture(scope="module")
def portable(catalogue: list[Variant]) -> list[Variant]:
    """The part of the catalogue that no other tier changes."""
    return [variant for variant in catalogue if variant.tier.name == "portable"]


@pytest.fixture
def decode_portable_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = KINDS["decode"]
    monkeypatch.setitem(KINDS, "decode", replace(decode, tiers=(decode.tier("portable"),)))


def refusal(*args: object) -> OctaveError:
    with pytest.raises(OctaveError) as caught:
        plan.variants(*args)  # type: ignore[arg-type]
    assert caught.value.exit_code == WRONG_REQUEST
    return caught.value


def test_names_follow_the_scheme() -> None:
    names = [variant.name for variant in plan.variants([make(archs=("gfx942", "gfx1100"))])]
    assert "decode_octave_k3v4_h256r64_g6_q1_f16_mfma_gfx942" in names
    assert [name for name in names if "_portable_" in name] == [
        "store_octave_k3v4_h256r64_plain_f16_portable_gfx1100",
        "store_octave_k3v4_h256r64_plain_f16_portable_gfx942",
        "rotate_h256_f16_portable_gfx1100",
        "rotate_h256_f16_portable_gfx942",
        "decode_octave_k3v4_h256r64_g6_q1_f16_portable_gfx1100",
        "decode_octave_k3v4_h256r64_g6_q1_f16_portable_gfx942",
        "reduce_h256_f16_portable_gfx1100",
        "reduce_h256_f16_portable_gfx942",
    ]


def test_unit_and_source_leave_the_query_dtype_out() -> None:
    (decode,) = plan.select(plan.variants([make(query_dtypes=("bf16",))]), "decode_*_portable_*")
    assert decode.name == "decode_octave_k3v4_h256r64_g6_q1_bf16_portable_gfx942"
    assert decode.unit == "decode_octave_k3v4_h256r64_g6_q1_portable_gfx942"
    assert decode.source == "gfx942/decode_octave_k3v4_h256r64_g6_q1_portable_gfx942.hip"
    assert decode.geometry == decode.tier.geometry(decode.shape, decode.arch)


def test_the_portable_catalogue_has_192_units_and_384_variants_per_arch(portable: list[Variant]) -> None:
    for arch in ("gfx942", "gfx1100"):
        mine = [variant for variant in portable if variant.arch.name == arch]
        assert len(mine) == 384
        units = plan.units(mine)
        assert len(units) == 192
        kinds = Counter(unit.first.kind.name for unit in units)
        assert kinds == {"store": 34, "rotate": 3, "decode": 152, "reduce": 3}
        assert all(len(unit.variants) == 2 for unit in units)
    assert len(portable) == 2 * 384


def test_every_tier_of_decode_serves_all_heads_but_512(catalogue: list[Variant]) -> None:
    every = [variant for variant in catalogue if variant.kind.name == "decode"]
    decode = [variant for variant in every if variant.shape.head_size != 512]
    assert {variant.tier.name for variant in every if variant not in decode} == {"portable", "mfma"}
    chips = [chip for chip in ARCHS.values() if not chip.on_request]
    offered = {(chip.name, tier.name) for chip in chips for tier in KINDS["decode"].tiers_on(chip)}
    assert offered >= {("gfx942", "portable"), ("gfx942", "mfma"), ("gfx1100", "portable")}
    assert Counter((v.arch.name, v.tier.name) for v in decode) == dict.fromkeys(offered, 264)
    assert Counter((u.first.arch.name, u.first.tier.name) for u in plan.units(decode)) == dict.fromkeys(offered, 132)


def test_the_catalogue_has_the_promised_groups(catalogue: list[Variant]) -> None:
    groups: dict[int, set[int]] = {}
    for variant in catalogue:
        if variant.kind.name == "decode":
            assert variant.shape.gqa_group is not None
            groups.setdefault(variant.shape.head_size, set()).add(variant.shape.gqa_group)
    assert groups == {512: {4, 8}, 256: {1, 2, 3, 4, 6, 8, 16}, 128: {4, 6, 8, 12, 16}}


def test_a_chip_on_request_is_planned_when_it_is_named_or_asked_for(catalogue: list[Variant]) -> None:
    assert {variant.arch.name for variant in catalogue} == {"gfx942", "gfx1100"}
    named = plan.variants(spec.shipped(), ["gfx950"])
    assert {variant.arch.name for variant in named} == {"gfx950"}
    assert {variant.kind.name for variant in named} == set(KINDS)
    assert len(named) == sum(variant.arch.name == "gfx942" for variant in catalogue)
    every = plan.variants(spec.shipped(), on_request=True)
    assert [variant for variant in every if not variant.arch.on_request] == catalogue
    assert [variant for variant in every if variant.arch.on_request] == named
    assert plan.variants(spec.shipped(), ["gfx942", "gfx950"]) == [v for v in every if v.arch.name != "gfx1100"]


def test_a_plan_of_chips_on_request_alone_says_how_to_get_it() -> None:
    (one, *_) = spec.shipped()
    error = refusal([replace(one, archs=("gfx950",))])
    assert error.what == "the plan is empty"
    assert error.hint is not None
    assert "--arch" in error.hint


def test_names_are_unique_symbols_and_sorted(catalogue: list[Variant]) -> None:
    names = [variant.name for variant in catalogue]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in names)
    order = list(KINDS)
    keys = [(order.index(variant.kind.name), variant.arch.name, variant.name) for variant in catalogue]
    assert keys == sorted(keys)


def test_the_order_of_specs_does_not_matter(catalogue: list[Variant]) -> None:
    assert [v.name for v in plan.variants(reversed(spec.shipped()))] == [v.name for v in catalogue]


def test_archs_narrow_the_plan(catalogue: list[Variant]) -> None:
    chosen = plan.variants(spec.shipped(), ["gfx942"])
    assert chosen == [variant for variant in catalogue if variant.arch.name == "gfx942"]
    assert plan.variants(spec.shipped(), ["gfx942", "gfx1100", "gfx942"]) == catalogue


def test_a_variant_that_two_specs_ask_for_is_planned_once() -> None:
    one = make(source="one.toml", gqa_groups=(1, 6))
    two = make(source="two.toml", gqa_groups=(6, 8))
    specs = {variant.name: variant.specs for variant in plan.variants([one, two]) if variant.tier.name == "portable"}
    decode = "decode_octave_k3v4_h256r64_g{}_q1_f16_portable_gfx942"
    assert specs[decode.format(1)] == ("one.toml",)
    assert specs[decode.format(6)] == ("one.toml", "two.toml")
    assert specs[decode.format(8)] == ("two.toml",)
    assert specs["rotate_h256_f16_portable_gfx942"] == ("one.toml", "two.toml")
    assert len(specs) == 3 + 3


def test_the_same_spec_twice_changes_nothing() -> None:
    assert plan.variants([make(), make()]) == plan.variants([make()])


def test_budgets_that_contradict_name_the_variant_and_both_specs() -> None:
    other = make(source="two.toml", budget=replace(BUDGET, vgprs=64))
    error = refusal([make(source="one.toml"), other])
    assert error.what == "store_octave_k3v4_h256r64_plain_f16_portable_gfx942 is asked for with two budgets"
    assert error.where == "one.toml, two.toml"


def test_each_variant_gets_the_budget_that_selects_it() -> None:
    rules = [BudgetRule(kind, "gfx942", BUDGET) for kind in KINDS if kind != "decode"]
    for gqa, query, vgprs in ((1, 1, 11), (1, 4, 14), (6, 1, 61), (6, 4, 64)):
        rules.append(BudgetRule("decode", "gfx942", replace(BUDGET, vgprs=vgprs), (gqa,), (query,)))
    planned = plan.variants([make(gqa_groups=(1, 6), query_groups=(1, 4), budgets=tuple(rules))])
    got = {(v.shape.gqa_group, v.shape.query_group): v.budget.vgprs for v in planned if v.kind.name == "decode"}
    assert got == {(1, 1): 11, (1, 4): 14, (6, 1): 61, (6, 4): 64}


@pytest.mark.parametrize(("count", "problem"), [(0, "no budget covers"), (2, "2 budgets cover")])
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("store", "store on gfx942 for octave_k3v4 with encoder plain"),
        ("rotate", "rotate on gfx942"),
        ("decode", "decode on gfx942 for octave_k3v4 with gqa_group 6, query_group 1 in the portable tier"),
    ],
)
def test_exactly_one_budget_selects_a_variant(kind: str, what: str, count: int, problem: str) -> None:
    """The tier is named where the chip offers several of the kind."""
    rules = [BudgetRule(other, "gfx942", BUDGET) for other in KINDS if other != kind]
    rules += [BudgetRule(kind, "gfx942", BUDGET)] * count
    error = refusal([make(budgets=tuple(rules))])
    assert str(error).startswith(f"mine.toml: {problem} {what}\n")


def test_cache_dtypes_select_a_budget_and_its_counts() -> None:
    by_dtype = [name for name, kind in KINDS.items() if "cache_dtype" in kind.fields]
    rules = [BudgetRule(kind, "gfx942", BUDGET) for kind in KINDS if kind not in by_dtype]
    for dtype, vgprs, valu in (("octave_k3v3", 33, 3.0), ("octave_k3v4", 34, 4.0)):
        chosen, counted = replace(BUDGET, vgprs=vgprs), CountedBudget(valu=valu)
        rules += [BudgetRule(k, "gfx942", chosen, cache_dtypes=(dtype,), counted=counted) for k in by_dtype]
    planned = plan.variants([replace(make(budgets=tuple(rules)), cache_dtypes=("octave_k3v3", "octave_k3v4"))])
    portable = [v for v in planned if v.tier.name == "portable"]
    assert {(v.kind.name, v.shape.cache_dtype): (v.budget.vgprs, v.counted.valu) for v in portable} == {
        ("store", "octave_k3v3"): (33, 3.0),
        ("store", "octave_k3v4"): (34, 4.0),
        ("rotate", None): (128, None),
        ("decode", "octave_k3v3"): (33, 3.0),
        ("decode", "octave_k3v4"): (34, 4.0),
        ("reduce", None): (128, None),
    }


def test_two_specs_must_agree_on_counts() -> None:
    counted = tuple(BudgetRule(kind, "gfx942", BUDGET, counted=CountedBudget(valu=9.0)) for kind in KINDS)
    error = refusal([make(), make(source="other.toml", budgets=counted)])
    assert "is asked for with two budgets" in error.what
    assert error.where == "mine.toml, other.toml"
    assert plan.variants([make(budgets=counted), make(source="other.toml", budgets=counted)])


def test_kernels_of_two_families_are_not_merged() -> None:
    """The names of rotate and reduce carry no family."""
    error = refusal([make(source="one.toml"), replace(make(source="two.toml"), family="other")])
    assert error.what.endswith(" would be two kernels: of the families octave and other")
    assert error.where == "one.toml, two.toml"


def test_each_tier_gets_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    decode, chip = KINDS["decode"], ARCHS["gfx942"]
    portable = decode.tier("portable")
    monkeypatch.setitem(KINDS, "decode", replace(decode, tiers=(portable, replace(portable, name="matrix"))))
    monkeypatch.setitem(ARCHS, "gfx942", replace(chip, tiers=(*chip.tiers, "matrix")))
    others = [BudgetRule(kind, "gfx942", BUDGET) for kind in KINDS if kind != "decode"]
    rule = BudgetRule("decode", "gfx942", replace(BUDGET, vgprs=11), tiers=("portable",))
    planned = plan.variants([make(budgets=(*others, rule, replace(rule, budget=BUDGET, tiers=("matrix",))))])
    got = {v.tier.name: v.budget.vgprs for v in planned if v.kind.name == "decode"}
    assert got == {"portable": 11, "matrix": 128}
    shared = plan.variants([make(budgets=(*others, replace(rule, tiers=())))])
    assert [v.budget.vgprs for v in shared if v.kind.name == "decode"] == [11, 11]
    error = refusal([make(budgets=(*others, rule))])
    what = "decode on gfx942 for octave_k3v4 with gqa_group 6, query_group 1 in the matrix tier"
    assert error.what == f"no budget covers {what}"


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("gfx90a", "gfx90a is not supported: CDNA2: its int8 matrix instruction is narrower"),
        (
            "gfx94",
            "'gfx94' is no arch that octave-gen knows (did you mean gfx942, gfx950?); "
            "supported: gfx942, gfx1100; on request: gfx950",
        ),
        ("gfx1100", "no spec names gfx1100"),
    ],
)
def test_an_arch_that_cannot_be_planned(arch: str, message: str) -> None:
    assert refusal([make()], [arch]).what.startswith(message)


def test_a_spec_that_does_not_name_the_arch_is_passed_over() -> None:
    both = [make(archs=("gfx1100",), gqa_groups=(8,)), make(gqa_groups=(6,))]
    planned = plan.variants(both, ["gfx942"])
    assert {variant.arch.name for variant in planned} == {"gfx942"}
    assert {variant.shape.gqa_group for variant in planned if variant.kind.name == "decode"} == {6}


def test_a_plan_without_specs_is_an_error() -> None:
    assert refusal([]).what == "the plan is empty"


def test_too_many_rows_are_refused_for_every_arch_in_one_report(decode_portable_alone: None) -> None:
    wide = make(source="wide.toml", gqa_groups=(16,), query_groups=(4, 5), archs=("gfx942", "gfx1100"))
    wide = replace(wide, query_dtypes=("fp16", "bf16"))
    error = refusal([wide, make(source="wider.toml", gqa_groups=(15,), query_groups=(16,))])
    assert str(error) == (
        "required kernels do not exist:\n"
        "  wide.toml: decode on gfx942: the portable tier holds gqa_group × query_group up to 64, not 80\n"
        "  wide.toml: decode on gfx1100: the portable tier holds gqa_group × query_group up to 64, not 80\n"
        "  wider.toml: decode on gfx942: the portable tier holds gqa_group × query_group up to 64, not 240\n"
        "  hint: there is no fallback: change the spec"
    )


@pytest.mark.parametrize(("query_group", "tiers"), [(4, {"portable", "mfma", "flydsl"}), (5, {"mfma", "flydsl"})])
def test_a_shape_is_planned_in_the_tiers_that_hold_it(query_group: int, tiers: set[str]) -> None:
    """64 rows are the most that the portable tier holds."""
    planned = plan.variants([make(gqa_groups=(16,), query_groups=(query_group,))])
    assert {variant.tier.name for variant in planned if variant.kind.name == "decode"} == tiers


def test_a_head_of_192_is_refused_by_every_kind_with_the_reasons_of_its_tiers() -> None:
    lines = refusal([make(head_size=192)]).what.split("\n")
    reasons = dict(line.removeprefix("  mine.toml: ").split(" on gfx942: ") for line in lines[1:])
    assert list(reasons) == list(KINDS)
    portable = "the portable tier holds head_size 64, 128, 256 and 512, not 192"
    assert {reasons[kind] for kind in ("store", "rotate", "reduce")} == {portable}
    held = {"mfma": "128, 256 and 512", "flydsl": "128 and 256"}
    of_matrix = [f"the {tier} tier holds head_size {heads}, not 192" for tier, heads in held.items()]
    assert reasons["decode"] == "; ".join([portable, *of_matrix])


def test_a_chip_without_a_tier_of_the_kind_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARCHS, "gfx942", replace(ARCHS["gfx942"], tiers=()))
    lines = refusal([make()]).what.split("\n")
    assert lines[1:] == [f"  mine.toml: {kind} on gfx942: the chip offers no tier of it" for kind in KINDS]


def test_select_matches_whole_names_by_glob(catalogue: list[Variant]) -> None:
    assert plan.select(catalogue, None) == catalogue
    assert plan.select(catalogue, "*") == catalogue
    chosen = plan.select(catalogue, "decode_*_g6_q[14]_bf16_portable_*942")
    assert len(chosen) == (5 + 5 + 2) * 2
    assert plan.select(catalogue, "rotate_h256_f16_portable_gfx942")[0].kind.name == "rotate"


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        (
            "decode_octave_k3v4_h256r64_g5_q1_f16_portable_gfx942",
            "decode_octave_k3v4_h256r64_g1_q1_f16_portable_gfx942",
        ),
        ("decode_octave_k4v4*", "decode_octave_k3v4_h128r64_g4_q1_f16_portable_gfx942"),
        ("DECODE*g16*GFX1100", "decode_octave_k3v3_h128r64_g16_q1_f16_portable_gfx1100"),
        ("rotate_h64_*", "rotate_h256_f16_portable_gfx942"),
        ("stor", "store_octave_k3v3_h128r64_plain_f16_portable_gfx942"),
        ("decode", "decode_octave_k3v3_h128r64_g4_q1_f16_portable_gfx942"),
    ],
)
def test_a_filter_without_a_match_names_near_variants(pattern: str, near: str, portable: list[Variant]) -> None:
    with pytest.raises(OctaveError) as caught:
        plan.select(portable, pattern)
    assert caught.value.exit_code == WRONG_REQUEST
    assert str(caught.value).startswith(f"filter: no variant matches {pattern!r} (did you mean {near}, ")
    names = {variant.name for variant in portable}
    shown = str(caught.value).split("did you mean ")[1].split("?)")[0].split(", ")
    assert len(shown) == 3
    assert set(shown) <= names


@pytest.mark.parametrize("pattern", ["", "***[", "x" * 100_000])
def test_a_senseless_filter_is_an_error_of_the_request(pattern: str, catalogue: list[Variant]) -> None:
    with pytest.raises(OctaveError, match="no variant matches") as caught:
        plan.select(catalogue, pattern)
    assert len(str(caught.value)) < 600


def test_siblings_share_the_unit(catalogue: list[Variant]) -> None:
    chosen = plan.select(catalogue, "rotate_h256_f16_portable_gfx942")
    assert [variant.name for variant in plan.with_siblings(chosen, catalogue)] == [
        "rotate_h256_bf16_portable_gfx942",
        "rotate_h256_f16_portable_gfx942",
    ]
    assert plan.with_siblings(catalogue, catalogue) == catalogue
    assert plan.with_siblings([], catalogue) == []


def test_units_gather_their_variants_in_order(catalogue: list[Variant]) -> None:
    units = plan.units(catalogue)
    assert [unit.name for unit in units] == list(dict.fromkeys(variant.unit for variant in catalogue))
    assert all(list(unit.variants) == [v for v in catalogue if v.unit == unit.name] for unit in units)
    assert all(unit.first is unit.variants[0] and unit.source == unit.first.source for unit in units)
    assert len({unit.source for unit in units}) == len(units) == len(catalogue) // 2


def test_variants_of_a_unit_differ_in_query_dtype_alone() -> None:
    f16, bf16 = (v for v in plan.variants([make(query_dtypes=("fp16", "bf16"))]) if v.kind.name == "rotate")
    assert len(plan.units([f16, bf16])) == 1
    foreign = replace(bf16, shape=replace(bf16.shape, family="other"))
    with pytest.raises(OctaveError, match="differ in more than their query dtype"):
        plan.units([f16, foreign])

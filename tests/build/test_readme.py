"""The generated tables of README.md."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from octave_gen import plan, settings, spec
from octave_gen.arch import ARCHS
from octave_gen.build import readme
from octave_gen.manifest import slot_bytes
from octave_gen.plan import Variant


@pytest.fixture(scope="module")
def planned() -> list[Variant]:
    return plan.variants(spec.shipped())


def rows(table: str) -> list[dict[str, list[str]]]:
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [dict(zip(head, (cell.split(", ") for cell in line), strict=True)) for line in lines]


def cells(variant: Variant) -> tuple[str, ...]:
    shape = variant.shape
    found = (variant.kind.name, shape.cache_dtype, shape.head_size, shape.rotary_dims, shape.gqa_group)
    found += (shape.encoder, shape.query_group, shape.scalar, variant.tier.name, variant.arch.name)
    return tuple("" if cell is None else str(cell) for cell in found)


def expand(table: str) -> list[tuple[str, ...]]:
    shape = ("cache dtype", "head", "rotary", "GQA groups", "encoders", "query groups", "query dtypes")
    columns = ("kernel", *shape, "tier", "arch")
    return [row for cells in rows(table) for row in product(*(cells[column] for column in columns))]


def test_the_rows_are_exactly_the_plan(planned: list[Variant]) -> None:
    found = expand(readme.variant_table(planned))
    assert sorted(found) == sorted(map(cells, planned))
    assert len(readme.variant_table(planned).splitlines()) < 90


def test_counted_budgets_of_the_largest_head_side_by_side(planned: list[Variant]) -> None:
    found = {(row["kernel"][0], row["arch"][0], row["tier"][0], row["query group"][0]): row for row in counted(planned)}
    bounds = {v.shape.cache_dtype: v.counted for v in planned if "h256r64_g6_q4_f16_mfma" in v.name}
    assert len(bounds) == 5
    row = found["decode", "gfx942", "mfma", "4"]
    assert row["VALU"][0].split(" / ") == [f"{bound.valu:g}" for bound in bounds.values()]
    assert row["HBM clocks"] == ["23.6 / 26 / 27.5 / 29.9 / 27.5"]
    assert row["per"] == ["token"]
    assert found["prefill_chunk", "gfx1100", "wmma", ""]["HBM clocks"] == [""]
    # one bound for all dtypes is one figure
    assert "/" not in found["decode", "gfx942", "portable", "1"]["VALU"][0]
    assert "/" in found["decode", "gfx942", "portable", "1"]["HBM clocks"][0]


def test_the_counts_of_each_encoder_are_a_row(planned: list[Variant]) -> None:
    found = [row for row in counted(planned) if (row["kernel"], row["arch"]) == (["store"], ["gfx942"])]
    assert [row["encoder"] for row in found] == [["plain"], ["search"]]
    assert {row["encoder"][0] for row in counted(planned) if row["kernel"] != ["store"]} == {""}


def test_the_order_of_the_cache_dtypes_is_told(planned: list[Variant]) -> None:
    legend = readme.counted_legend(planned)
    assert legend.startswith(
        "Heads of 256 with 64 rotary dims in GQA groups of 6, fp16; cache dtypes octave_k3v3_compact / octave_k3v3 / "
    )
    assert readme.blocks(planned)["counted"]().startswith(f"{legend}\n| kernel | per |")
    found = {(row["kernel"][0], row["arch"][0]): row["HBM clocks"][0] for row in counted(planned)}
    order = [name.strip() for name in legend.partition("dtypes ")[2].partition(",")[0].split("/")]
    sizes = {v.shape.cache_dtype: slot_bytes(v) for v in planned if "h256r64" in v.name}
    hbm_bytes = ARCHS["gfx942"].costs.hbm_bytes
    assert found["prefill_prefix", "gfx942"].split(" / ") == [f"{(sizes[name] or 0) / hbm_bytes:.3g}" for name in order]


def test_bounds_are_given_in_full(planned: list[Variant]) -> None:
    variant = next(v for v in planned if v.name == "decode_octave_k3v3_h256r64_g6_q1_f16_portable_gfx1100")
    bounds = replace(variant.counted, valu=1154.5, clocks=178.25)
    (row,) = counted([replace(variant, counted=bounds)])
    assert row["VALU"] == ["1154.5"]
    assert row["clocks"] == ["178.25"]
    assert row["HBM clocks"] == ["54"]


def counted(planned: list[Variant]) -> list[dict[str, list[str]]]:
    return rows(readme.counted_table(planned))


def test_without_counted_budgets_the_table_is_empty() -> None:
    assert counted([]) == []
    assert readme.counted_legend([]) == ""


@pytest.mark.parametrize("left_out", ["_g6_q4_bf16_portable_gfx942", "rotate_h256_bf16_portable_gfx1100", "_gfx1100"])
def test_a_plan_with_holes_is_not_shown_as_a_full_one(planned: list[Variant], left_out: str) -> None:
    fewer = [variant for variant in planned if left_out not in variant.name]
    assert len(fewer) < len(planned)
    assert sorted(expand(readme.variant_table(fewer))) == sorted(map(cells, fewer))


def test_numbers_are_in_order_and_slots_are_given(planned: list[Variant]) -> None:
    decode = [row for row in rows(readme.variant_table(planned)) if row["kernel"] == ["decode"]]
    assert ["1", "2", "3", "4", "6", "8", "16"] in [row["GQA groups"] for row in decode]
    slots = {(row["cache dtype"][0], row["head"][0], row["slot bytes"][0]) for row in decode}
    assert ("octave_k3v3_compact", "256", "196") in slots
    assert ("octave_k3v4", "128", "128") in slots


def test_every_variable_and_arch_has_its_row() -> None:
    assert readme.environment_table().count("\n") == 2 + len(settings.VARIABLES)
    assert "| `OCTAVE_CACHE_DIR` | " in readme.environment_table()
    for chip in ARCHS.values():
        assert f"| {chip.name} | {chip.family} | {chip.product} |" in readme.arch_table()

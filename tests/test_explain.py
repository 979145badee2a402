"""Why a name names no variant."""

from __future__ import annotations

import re
from dataclasses import replace

import prefill_stand_in
import pytest

from octave_gen import plan, spec
from octave_gen.arch import Arch
from octave_gen.explain import explain
from octave_gen.formats import FAMILIES
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import Shape
from octave_gen.plan import Variant

NAME = "decode_octave_k3v3_h256r64_g6_q4_f16_portable_gfx942"


@pytest.fixture(scope="module")
def planned() -> list[Variant]:
    return plan.variants(spec.shipped())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("decod_octave_k3v3_h256r64_g6_q4_f16_portable_gfx942", r"no kernel kind 'decod' \(did you mean decode\?\)"),
        ("prefill_octave_k3v3_h256r64_g6_f16_portable_gfx942", "no kernel kind 'prefill'"),
        ("decode_octave_k4v4_h256r64_g6_q4_f16_portable_gfx942", "no cache dtype 'octave_k4v4'"),
        ("decode_octave_k3v3_h256r256_g6_q4_f16_portable_gfx942", "full rotary"),
        ("decode_octave_k3v3_h200r64_g6_q4_f16_portable_gfx942", "head_size 200 is not a multiple of 64"),
        ("decode_octave_k3v3_h256r96_g6_q4_f16_portable_gfx942", "rotary_dims 96 is not a multiple of 64"),
        ("decode_octave_k3v3_h256r64_g17_q4_f16_portable_gfx942", "a GQA group is 1 to 16, not 17"),
        ("decode_octave_k3v3_h256r64_g6_q0_f16_portable_gfx942", "a query group is 1 to 16, not 0"),
        ("decode_octave_k3v3_h256r64_g16_q8_f16_portable_gfx942", "gqa_group × query_group up to 64, not 128"),
        (
            "decode_octave_k3v3_h256r64_g6_q4_fp16_portable_gfx942",
            r"no query dtype 'fp16' \(did you mean f16\?\); query dtypes: f16, bf16",
        ),
        ("decode_octave_k3v3_h320r64_g6_q4_portable_gfx942", "query dtype is missing"),
        (
            "decode_octave_k3v3_h256r64_g6_q4_f16_scalar_gfx942",
            "decode has no tier 'scalar'; tiers: portable, mfma, wmma",
        ),
        ("decode_octave_k3v3_h256r64_g6_q4_f16_mfma_gfx1100", "gfx1100 offers no tier 'mfma'; tiers: portable"),
        ("decode_octave_k3v3_h256r64_g6_q4_f16_portable_gfx90a", "gfx90a is not supported: CDNA2"),
        ("decode_octave_k3v3_h256r64_g6_q4_f16_portable_gfx943", r"did you mean gfx942, gfx950\?"),
        ("decode_octave_k3v3_h256r64_q4_f16_portable_gfx942", "decode depends on g<GQA group>"),
        ("decode_h256_f16_portable_gfx942", "decode depends on a cache dtype"),
        ("rotate_octave_k3v3_h256_f16_portable_gfx942", "rotate does not depend on a cache dtype"),
        ("rotate_h192_f16_portable_gfx942", "holds head_size 64, 128, 256 and 512, not 192"),
        ("store_octave_k3v3_h256r64_plain_g6_f16_portable_gfx942", "store does not depend on g<GQA group>"),
        ("store_octave_k3v3_h256r64_f16_portable_gfx942", "store depends on an encoder: the name lacks it"),
        (
            "store_octave_k3v3_h256r64_serch_f16_portable_gfx942",
            r"there is no encoder 'serch' \(did you mean search\?\); encoders: plain, search",
        ),
        ("store_octave_k3v3_h320r64_search_portable_gfx942", "query dtype is missing"),
        ("decode_octave_k3v3_h256r64_plain_g6_q4_f16_portable_gfx942", "decode does not depend on an encoder"),
        ("rotate_h256_search_f16_portable_gfx942", "rotate does not depend on an encoder"),
    ],
)
def test_the_part_that_does_not_exist_is_named(planned: list[Variant], name: str, reason: str) -> None:
    miss = explain(name, planned)
    assert miss.hint is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError("; ".join(miss.reasons))


def test_a_kernel_without_a_dtype_is_impossible_only_where_no_family_has_it(
    planned: list[Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "rotate_h128_f16_portable_gfx942"
    others = [variant for variant in planned if variant.name != name]
    rotate = KINDS["rotate"]

    def refuse(shape: Shape, arch: Arch) -> str | None:
        return f"not {shape.family}" if shape.family in refused else None

    monkeypatch.setitem(FAMILIES, "other", FAMILIES["octave"])
    monkeypatch.setitem(KINDS, "rotate", replace(rotate, tiers=(replace(rotate.tiers[0], refuse=refuse),)))
    refused = {"octave"}
    assert "no spec asks for it" in explain(name, others).reasons[0]
    refused = {"octave", "other"}
    assert explain(name, others).reasons == ("not octave", "not other")


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("prefill_prefix_octave_k3v3_h256r64_f16_mfma_gfx942", ["it could exist, but no spec asks for it"]),
        ("prefill_chunk_h256_f16_mfma_gfx942", ["it could exist, but no spec asks for it"]),
        ("prefill_chunk_octave_k3v3_h256_f16_mfma_gfx942", ["prefill_chunk does not depend on a cache dtype"]),
        ("prefill_prefix_h256r64_f16_mfma_gfx942", ["prefill_prefix depends on a cache dtype"]),
        ("prefill_prefix_octave_k9_h256r64_f16_mfma_gfx942", ["no cache dtype 'octave_k9'"]),
        ("prefill_octave_k3v3_h256r64_f16_mfma_gfx942", [r"no kernel kind 'prefill' \(did you mean"]),
        ("prefil_prefix_octave_k3v3_h256r64_f16_mfma_gfx942", [r"'prefil_prefix' \(did you mean prefill_prefix"]),
        ("prefill_prefix_octave_k3v3_h256r64_f16_portable_gfx942", ["no tier 'portable'; tiers: mfma"]),
    ],
)
def test_names_of_kinds_of_two_words(
    planned: list[Variant], name: str, reasons: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill_stand_in.register(monkeypatch)
    found = explain(name, planned).reasons
    assert len(found) == len(reasons)
    for reason, expected in zip(found, reasons, strict=True):
        assert re.search(expected, reason)


def test_all_wrong_parts_are_named_at_once(planned: list[Variant]) -> None:
    miss = explain("decode_octave_k9_h200r64_g99_q4_f99_scalar_gfx000", planned)
    assert len(miss.reasons) == 5


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "decode_octave_k3v3_h256r64_g5_q4_f16_portable_gfx942",
            "gqa group 5, and the specs have 1, 2, 3, 4, 6, 8, 16",
        ),
        ("decode_octave_k3v3_h256r64_g6_q2_f16_portable_gfx942", "query group 2, and the specs have 1, 4"),
        ("decode_octave_k3v3_h256r192_g6_q4_f16_portable_gfx942", "rotary dims 192, and the specs have 64, 128"),
        ("rotate_h64_f16_portable_gfx942", "head size 64, and the specs have 128, 256, 512"),
    ],
)
def test_what_a_spec_could_ask_for(planned: list[Variant], name: str, reason: str) -> None:
    miss = explain(name, planned)
    assert len(miss.reasons) == 1
    assert reason in miss.reasons[0]
    assert miss.hint is not None
    assert "--spec" in miss.hint


@pytest.mark.parametrize("dtype", ["octave_k3v3_compact", "octave_k3v4_compact", "octave_k4v3_compact"])
def test_compact_slots_of_other_rotary_dims_have_a_kernel_already(planned: list[Variant], dtype: str) -> None:
    name = f"decode_{dtype}_h256r{{}}_g6_q4_f16_mfma_gfx942"
    miss = explain(name.format(128), planned)
    twin = name.format(64)
    assert miss.reasons == (f"its slots do not depend on the rotary dims: {twin} is the same kernel",)
    assert miss.hint == f"take {twin}"
    assert "no spec asks for it" in explain(name.format(128).replace("g6", "g5"), planned).reasons[0]
    assert "no spec asks for it" in explain("store_octave_k3v3_h256r192_plain_f16_portable_gfx942", planned).reasons[0]


def test_nearest_come_first(planned: list[Variant]) -> None:
    miss = explain("decode_octave_k3v3_h256r64_g7_q4_f16_portable_gfx942", planned)
    assert [name.split("_")[4] for name in miss.nearest] == ["g6", "g8", "g4"]
    assert all(name.replace(name.split("_")[4], "g6") == NAME for name in miss.nearest)
    assert explain(NAME.replace("gfx942", "gfx90a"), planned).nearest[0] in (NAME, NAME.replace("gfx942", "gfx1100"))
    assert explain("rotate_h64_f16_portable_gfx942", planned).nearest[0] == "rotate_h128_f16_portable_gfx942"


def test_a_unit_is_no_variant(planned: list[Variant]) -> None:
    miss = explain("decode_octave_k3v3_h256r64_g6_q4_portable_gfx942", planned)
    assert "source file" in miss.reasons[0]
    assert set(miss.nearest) == {NAME, NAME.replace("_f16_", "_bf16_")}


@pytest.mark.parametrize(
    "name", ["", "_", "decode", "decode_octave", "DECODE_H256_F16_PORTABLE_GFX942", "x" * 500, "é\n"]
)
def test_what_is_no_name_at_all(planned: list[Variant], name: str) -> None:
    miss = explain(name, planned)
    assert "scheme is <kind>_<dtype>" in miss.reasons[0]
    assert len(miss.nearest) == 3


def test_a_slip_of_the_pen_finds_the_name(planned: list[Variant]) -> None:
    assert explain(NAME.replace("_h256", "-h256"), planned).nearest[0] == NAME


def test_numbers_beyond_reason_are_no_name(planned: list[Variant]) -> None:
    assert "scheme" in explain("rotate_h" + "9" * 5000 + "_f16_portable_gfx942", planned).reasons[0]


def test_every_planned_name_takes_apart_into_itself(planned: list[Variant]) -> None:
    for variant in planned[::7]:
        others = [other for other in planned if other is not variant]
        assert variant.name not in explain(variant.name, others).nearest
        assert "no spec asks for it" in explain(variant.name, others).reasons[0]

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from octave_gen import arch as archs
from octave_gen.errors import OctaveError
from octave_gen.runtime import missing
from octave_gen.runtime.dispatch import Registry, check_block_size, check_tier, decode_tier, prefill_tier
from octave_gen.runtime.library import Library, VariantKey

Make = Callable[..., Library]
DECODE = VariantKey(
    arch="gfx942",
    kind="decode",
    tier="portable",
    query_dtype="fp16",
    head_size=128,
    cache_dtype="octave_k3v3",
    slot_bytes=112,
    gqa_group=4,
    query_group=1,
)


def test_each_variant_is_found_by_its_key(make_library: Make) -> None:
    libraries = [make_library("gfx942"), make_library("gfx1100")]
    registry = Registry(libraries)
    for library in libraries:
        assert len({variant.key for variant in library.variants}) == len(library.variants)
        assert sum(variant.key.tier == "portable" for variant in library.variants) == 10
        for variant in library.variants:
            assert registry.find(variant.key) == (library, variant)
    assert registry.find(DECODE)[1].name == "decode_octave_k3v3_h128r64_g4_q1_f16_portable_gfx942"


def test_slot_size_stands_for_the_rotary_dims(make_library: Make) -> None:
    registry = Registry([make_library(rotary_dims=64, head_size=256), make_library(rotary_dims=128, head_size=256)])
    for slot_bytes, rotary_dims in ((216, 64), (224, 128)):
        key = replace(DECODE, head_size=256, slot_bytes=slot_bytes)
        assert f"_h256r{rotary_dims}_" in registry.find(key)[1].name


def test_compact_serves_all_rotary_dims(make_library: Make) -> None:
    registry = Registry([make_library(cache_dtypes=("octave_k3v3_compact",), head_size=256, rotary_dims=128)])
    key = replace(DECODE, cache_dtype="octave_k3v3_compact", head_size=256, slot_bytes=196)
    assert registry.find(key)[1].name == "decode_octave_k3v3_compact_h256r128_g4_q1_f16_portable_gfx942"


def test_the_library_loaded_last_wins(make_library: Make) -> None:
    first, last = make_library(gqa_groups=(4, 6)), make_library(gqa_groups=(4,))
    registry = Registry([first, last])
    assert registry.find(DECODE)[0] is last
    assert registry.find(replace(DECODE, gqa_group=6))[0] is first
    registry.add(first)  # known already
    assert registry.find(DECODE)[0] is last
    assert registry.libraries == (first, last)


def test_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decode_tier("gfx942", use_wmma=False) == "portable"
    chip = replace(archs.get("gfx942"), tiers=("portable", "mfma", "other"))
    monkeypatch.setitem(archs.ARCHS, "gfx942", chip)
    assert decode_tier("gfx942", use_wmma=True) == prefill_tier("gfx942") == "mfma"
    monkeypatch.setitem(archs.ARCHS, "gfx942", replace(chip, tiers=("portable",)))
    with pytest.raises(OctaveError, match=r"no matrix tier for gfx942[\s\S]*use_wmma=False"):
        decode_tier("gfx942", use_wmma=True)
    with pytest.raises(OctaveError, match=r"no matrix tier for gfx942[\s\S]*cache_store and decode"):
        prefill_tier("gfx942")


@pytest.fixture
def with_flydsl(monkeypatch: pytest.MonkeyPatch) -> None:
    """gfx942 offers the flydsl tier."""
    chip = replace(archs.get("gfx942"), tiers=("portable", "mfma", "flydsl"))
    monkeypatch.setitem(archs.ARCHS, "gfx942", chip)


def test_a_tier_by_name(with_flydsl: None) -> None:
    for use_wmma in (False, True):
        assert [decode_tier("gfx942", use_wmma, name) for name in ("portable", "mfma", "flydsl")] == [
            "portable",
            "mfma",
            "flydsl",
        ]
    assert (decode_tier("gfx942", True), prefill_tier("gfx942")) == ("mfma", "mfma")
    assert prefill_tier("gfx942", "flydsl") == "flydsl"


@pytest.mark.parametrize(
    ("arch", "tier", "said"),
    [
        ("gfx942", "flydsI", r"octave.decode: gfx942 has no tier 'flydsI' of decode \(did you mean flydsl\?\)"),
        ("gfx942", "wmma", "octave.decode: gfx942 has no tier 'wmma' of decode"),
        ("gfx1100", "flydsl", "octave.decode: gfx1100 has no tier 'flydsl' of decode"),
        ("gfx1030", "portable", "gfx1030 is not supported: RDNA2"),
    ],
)
def test_a_tier_that_the_chip_lacks(with_flydsl: None, arch: str, tier: str, said: str) -> None:
    with pytest.raises(OctaveError, match=said) as raised:
        decode_tier(arch, False, tier)
    offered = {"gfx942": "portable, mfma, flydsl", "gfx1100": "portable, wmma"}
    if arch in offered:
        assert raised.value.hint == f"tiers: {offered[arch]}"


def test_prefill_has_no_portable_tier(with_flydsl: None) -> None:
    with pytest.raises(OctaveError, match=r"octave\.prefill: gfx942 has no tier 'portable' of prefill") as raised:
        prefill_tier("gfx942", "portable")
    assert raised.value.hint == "tiers: mfma, flydsl"


def test_a_tier_of_no_chip() -> None:
    for name in (None, "portable", "mfma", "wmma", "flydsl"):
        check_tier("decode", name)
    with pytest.raises(OctaveError, match=r"octave\.decode: there is no tier 'scalar' of decode") as raised:
        check_tier("decode", "scalar")
    assert raised.value.hint == "tiers: portable, mfma, wmma, flydsl"


def test_a_missing_kernel_in_flydsl(make_library: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chip does not offer it: no build can help."""
    monkeypatch.setitem(archs.ARCHS, "gfx942", replace(archs.get("gfx942"), tiers=("portable", "mfma")))
    with pytest.raises(OctaveError, match="none can be built: decode has no flydsl tier on gfx942"):
        Registry([make_library()]).find(replace(DECODE, tier="flydsl"))


def test_the_remedy_for_a_missing_kernel_in_flydsl(
    with_flydsl: None, make_library: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = "with flydsl (pip install 'octave-gen[flydsl]'), "
    key = replace(DECODE, tier="flydsl")
    monkeypatch.setattr(missing, "shipped_name", lambda key: "decode_it")
    library = make_library()
    library = replace(library, variants=tuple(v for v in library.variants if v.key.tier == "portable"))
    with pytest.raises(OctaveError, match="other tier: portable") as raised:
        Registry([library]).find(key)
    assert str(raised.value.hint).startswith(f"{extra}`octave-gen build --arch gfx942` builds decode_it; then ")
    monkeypatch.setattr(missing, "shipped_name", lambda key: None)
    with pytest.raises(OctaveError) as raised:
        Registry([library]).find(key)
    assert f"{extra}`octave-gen build --arch gfx942 --spec FILE --out DIR`" in str(raised.value.hint)
    with pytest.raises(OctaveError) as raised:
        Registry([library]).find(replace(DECODE, gqa_group=5))
    assert extra not in str(raised.value.hint)


@pytest.mark.parametrize(
    ("change", "near"),
    [
        ({"gqa_group": 16}, "loaded with other gqa_group: 4, 12"),
        ({"query_group": 2}, "loaded with other query_group: 1, 4"),
        ({"query_dtype": "bf16"}, "loaded with other query_dtype: fp16"),
        ({"cache_dtype": "octave_k3v4", "slot_bytes": 128}, "loaded with other cache_dtype: octave_k3v3"),
        ({"head_size": 256, "slot_bytes": 216}, "loaded with other head_size: 128 with rotary_dims 64"),
        ({"arch": "gfx1100"}, "loaded with other arch: gfx942"),
        (
            {"gqa_group": 5, "query_dtype": "bf16"},
            "nearest loaded: decode_octave_k3v3_h128r64_g12_q1_f16_portable_gfx942, decode_octave_k3v3_h128r64_g4_q1_",
        ),
    ],
)
def test_missing_kernel_names_what_is_near(change: dict[str, object], near: str, make_library: Make) -> None:
    registry = Registry([make_library(gqa_groups=(4, 12), query_dtypes=("fp16",))])
    key = replace(DECODE, **change)
    with pytest.raises(OctaveError) as raised:
        registry.find(key)
    assert near in raised.value.what
    assert f"octave-gen build --arch {key.arch}" in str(raised.value.hint)


def test_missing_kernel_of_other_rotary_dims(make_library: Make) -> None:
    registry = Registry([make_library(head_size=256, rotary_dims=64)])
    with pytest.raises(OctaveError) as raised:
        registry.find(replace(DECODE, head_size=256, slot_bytes=224))
    assert "head_size 256, rotary_dims 128" in raised.value.what
    assert "loaded with other head_size: 256 with rotary_dims 64" in raised.value.what
    assert "cache_dtype" not in raised.value.what


def test_missing_kernel_that_is_shipped() -> None:
    with pytest.raises(OctaveError) as raised:
        Registry().find(replace(DECODE, gqa_group=12))
    assert raised.value.what == (
        "no loaded library holds the kernel decode on gfx942: octave_k3v3, head_size 128, rotary_dims 64, "
        "gqa_group 12, query_group 1, fp16, portable tier\n  nothing is loaded: call octave_gen.load()"
    )
    assert raised.value.hint == (
        "`octave-gen build --arch gfx942` builds decode_octave_k3v3_h128r64_g12_q1_f16_portable_gfx942; "
        "then octave_gen.load('gfx942')"
    )


def test_missing_kernel_that_no_shipped_spec_holds() -> None:
    with pytest.raises(OctaveError, match=r"no shipped spec holds it: write one[\s\S]*--arch gfx942 --spec FILE"):
        Registry().find(replace(DECODE, gqa_group=5))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arch": "gfx1030"}, "gfx1030 is not supported: RDNA2"),
        ({"gqa_group": 16, "query_group": 8}, "holds gqa_group × query_group up to 64, not 128"),
        ({"head_size": 192, "slot_bytes": 160}, "holds head_size 64, 128, 256 and 512, not 192"),
        ({"tier": "scalar"}, "decode has no scalar tier"),
        ({"slot_bytes": 120}, "full rotary (rotary_dims = head_size = 128)"),
        ({"gqa_group": 17}, "a gqa_group is 1 to 16"),
    ],
)
def test_missing_kernel_that_cannot_be_built(change: dict[str, object], reason: str, make_library: Make) -> None:
    with pytest.raises(OctaveError) as raised:
        Registry([make_library()]).find(replace(DECODE, **change))
    assert reason in raised.value.what
    assert "octave-gen build" not in str(raised.value)


@pytest.mark.parametrize(
    ("arch", "asked", "others"),
    [("gfx942", "mfma", ["flydsl"]), ("gfx942", "flydsl", ["mfma"]), ("gfx1100", "wmma", [])],
)
@pytest.mark.parametrize("kind", ["prefill_prefix", "prefill_chunk"])
def test_prefill_of_a_head_that_no_tier_holds(arch: str, asked: str, others: list[str], kind: str) -> None:
    key = VariantKey(arch=arch, kind=kind, tier=asked, query_dtype="fp16", head_size=512)
    if kind == "prefill_prefix":
        key = replace(key, cache_dtype="octave_k3v4_compact", slot_bytes=452)
    with pytest.raises(OctaveError) as raised:
        Registry().find(key)
    assert f"no loaded library holds the kernel {kind} on {arch}: " in raised.value.what
    assert "head_size 512" in raised.value.what
    reasons = "; ".join(f"the {tier} tier holds head_size 128 and 256, not 512" for tier in (asked, *others))
    assert raised.value.what.endswith(f"and none can be built: {reasons}")


def test_missing_rotate(make_library: Make) -> None:
    key = VariantKey(arch="gfx942", kind="rotate", tier="portable", query_dtype="fp16", head_size=256)
    with pytest.raises(OctaveError, match="rotate on gfx942: head_size 256, fp16, portable") as raised:
        Registry([make_library()]).find(key)
    assert "loaded with other head_size: 128" in raised.value.what


def test_a_block_size_that_the_tier_cannot_read() -> None:
    check_block_size("decode", "portable", 7)
    check_block_size("decode", "mfma", 1568)
    with pytest.raises(OctaveError, match="block size 24 is no multiple of 16, as the mfma tier needs"):
        check_block_size("decode", "mfma", 24)
    with pytest.raises(OctaveError, match="as the flydsl tier needs") as raised:
        check_block_size("decode", "flydsl", 24, by_name=True)
    assert raised.value.hint == "pass tier='portable', or choose another block size"
    with pytest.raises(OctaveError) as raised:
        check_block_size("prefill_prefix", "flydsl", 24, by_name=True)
    assert raised.value.hint == "choose another block size"

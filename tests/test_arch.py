"""The chips: occupancy, refusals, target ids."""

from __future__ import annotations

import re

import pytest

from octave_gen import arch
from octave_gen.arch import ARCHS, UNSUPPORTED, TargetId, parse_target_id
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.kernels import KINDS

# Kernels with 4096 bytes of LDS and 256 threads; origin of the last column: the compiler's own occupancy remark.
REMARKS = [
    ("gfx942", 73, 6),
    ("gfx942", 77, 6),
    ("gfx942", 122, 4),
    ("gfx942", 130, 3),
    ("gfx1100", 74, 16),
    ("gfx1100", 138, 10),
    ("gfx1100", 143, 10),
    ("gfx1100", 256, 5),
]


@pytest.mark.parametrize(("name", "vgprs", "waves"), REMARKS)
def test_occupancy_agrees_with_the_compiler(name: str, vgprs: int, waves: int) -> None:
    assert ARCHS[name].occupancy(vgprs, lds_bytes=4096, threads=256) == waves


@pytest.mark.parametrize(
    ("name", "lds_bytes", "threads", "waves"),
    [
        ("gfx942", 0, 256, 8),
        ("gfx942", 65536, 256, 1),
        ("gfx942", 32768, 256, 2),
        ("gfx942", 32769, 256, 1),
        ("gfx942", 16384, 256, 4),
        ("gfx942", 16385, 256, 3),
        ("gfx942", 21845, 256, 2),
        ("gfx942", 65536, 1024, 4),
        ("gfx942", 65537, 256, 0),
        ("gfx950", 0, 256, 8),
        ("gfx950", 163840, 256, 1),
        ("gfx950", 81920, 256, 2),
        ("gfx950", 81921, 256, 1),
        ("gfx950", 32768, 256, 4),
        ("gfx950", 32000, 256, 5),
        ("gfx950", 163841, 256, 0),
        ("gfx1100", 0, 256, 16),
        ("gfx1100", 65536, 256, 4),
        ("gfx1100", 32768, 256, 8),
        ("gfx1100", 32769, 256, 6),
        ("gfx1100", 21845, 256, 10),
        ("gfx1100", 65536, 32, 0),
    ],
)
def test_lds_limits_the_waves(name: str, lds_bytes: int, threads: int, waves: int) -> None:
    """Computed by hand: workgroups that fit the LDS (gfx942: 64 KiB a CU, gfx950: 160 in
    granules of 1280 bytes; gfx1100: 128 KiB a WGP) × waves / 4 SIMDs."""
    assert ARCHS[name].occupancy(1, lds_bytes, threads) == waves


@pytest.mark.parametrize(("name", "vgprs", "waves"), [("gfx942", 64, 8), ("gfx942", 65, 7), ("gfx942", 512, 1)])
def test_registers_come_in_granules(name: str, vgprs: int, waves: int) -> None:
    assert ARCHS[name].occupancy(vgprs, lds_bytes=0, threads=64) == waves


def test_more_registers_or_lds_never_give_more_waves() -> None:
    for chip in ARCHS.values():
        by_vgprs = [chip.occupancy(vgprs, 0, 256) for vgprs in range(chip.max_vgprs + 1)]
        by_lds = [chip.occupancy(1, lds, 256) for lds in range(0, chip.max_workgroup_lds + 1, 256)]
        for waves in (by_vgprs, by_lds):
            assert waves == sorted(waves, reverse=True)
            assert waves[0] == chip.max_waves_per_simd


def test_every_chip_offers_tiers_that_exist_and_says_what_its_evidence_is() -> None:
    tiers = {tier.name for kind in KINDS.values() for tier in kind.tiers}
    for name, chip in ARCHS.items():
        assert chip.name == name
        assert "portable" in chip.tiers
        assert set(chip.tiers) <= tiers
        evidence = chip.evidence
        assert evidence.level in ("compiled", "interpreted", "hardware")
        on_hardware = evidence.by is not None and re.fullmatch(r"\d{4}-\d\d-\d\d", evidence.when or "") is not None
        assert on_hardware == (evidence.level == "hardware")


def test_a_chip_on_request_says_why_and_what_builds_it() -> None:
    assert [name for name, chip in ARCHS.items() if chip.on_request] == ["gfx950"]
    assert ARCHS["gfx950"].evidence.level == "interpreted"
    assert arch.build_command("gfx950") == "octave-gen build --arch gfx950 --allow-unvalidated"
    assert arch.build_command("gfx942") == "octave-gen build --arch gfx942"
    assert arch.build_command("gfx908") == "octave-gen build --arch gfx908"
    assert arch.supported_words() == "gfx942, gfx1100; on request: gfx950"
    assert arch.refusal("gfx950") is None


def test_no_chip_is_both_supported_and_not() -> None:
    assert not set(ARCHS) & set(UNSUPPORTED)
    assert all(re.fullmatch(r"gfx[0-9a-f]{3,4}", name) for name in (*ARCHS, *UNSUPPORTED))


def test_no_two_chips_have_the_same_elf_machine() -> None:
    assert len({chip.elf_machine for chip in ARCHS.values()}) == len(ARCHS)


def test_get_returns_what_it_is_asked_for() -> None:
    assert arch.get("gfx942") is ARCHS["gfx942"]
    assert arch.refusal("gfx942") is None


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_chip_that_is_not_supported_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(OctaveError) as caught:
        arch.get(name)
    assert caught.value.exit_code == WRONG_REQUEST
    assert (
        caught.value.what
        == f"{name} is not supported: {UNSUPPORTED[name]}; supported: gfx942, gfx1100; on request: gfx950"
    )


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gfx94", " (did you mean gfx942, gfx950?)"),
        ("gfx110", " (did you mean gfx1100, gfx950?)"),
        ("mi300", ""),
        ("", ""),
    ],
)
def test_an_unknown_chip_names_the_near_and_the_supported(name: str, near: str) -> None:
    with pytest.raises(OctaveError) as caught:
        arch.get(name)
    assert caught.value.exit_code == WRONG_REQUEST
    assert (
        caught.value.what
        == f"{name!r} is no arch that octave-gen knows{near}; supported: gfx942, gfx1100; on request: gfx950"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gfx1100", TargetId("gfx1100")),
        ("gfx942:sramecc+:xnack-", TargetId("gfx942", sramecc=True, xnack=False)),
        ("gfx942:xnack+", TargetId("gfx942", xnack=True)),
        ("gfx90a:sramecc-", TargetId("gfx90a", sramecc=False)),
    ],
)
def test_target_ids_survive_the_round_trip(text: str, expected: TargetId) -> None:
    assert parse_target_id(text) == expected
    assert str(expected) == text


def test_features_may_come_in_any_order_and_are_printed_in_one() -> None:
    assert str(parse_target_id("gfx942:xnack-:sramecc+")) == "gfx942:sramecc+:xnack-"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sm_90",
        "gfx942:",
        "gfx942:xnack",
        "gfx942:xnack*",
        "gfx942:+",
        "gfx942:tgsplit+",
        "gfx942:xnack+:xnack+",
        "gfx942:xnack+:xnack-",
        "gfx942:xnack+:",
        ":xnack+",
        "gfx",
        "gfxfoo",
        "gfx942 ",
    ],
)
def test_what_is_no_target_id_is_refused(text: str) -> None:
    with pytest.raises(OctaveError, match="is no target id"):
        parse_target_id(text)

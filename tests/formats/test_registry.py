from __future__ import annotations

import subprocess
import sys

import pytest

from octave_gen.errors import OctaveError
from octave_gen.formats import CACHE_DTYPES, ENCODERS, FAMILIES, Family, cache_dtype, family_of
from octave_gen.formats.base import c_name, render_c_ints
from octave_gen.formats.octave.layout import FMTS


def test_dtypes_in_order_with_the_fmt_codes_of_the_ops() -> None:
    assert [(d.name, d.fmt) for d in CACHE_DTYPES.values()] == [
        ("octave_k3v3_compact", 19),
        ("octave_k3v3", 3),
        ("octave_k3v4_compact", 20),
        ("octave_k4v3_compact", 51),
        ("octave_k3v4", 4),
    ]
    assert FMTS == (3, 4, 19, 20, 51)


def test_every_dtype_belongs_to_its_family_and_fmts_are_unique_there() -> None:
    for name, dtype in CACHE_DTYPES.items():
        assert cache_dtype(name) is dtype
        assert dtype in family_of(dtype).cache_dtypes
    for name, family in FAMILIES.items():
        checked: Family = family
        assert checked.name == name
        assert checked.max_head_size % checked.block_dims == 0
        fmts = [d.fmt for d in checked.cache_dtypes]
        assert len(set(fmts)) == len(fmts)


def test_every_encoder_belongs_to_a_family_whose_default_is_one() -> None:
    assert ENCODERS == ("plain", "search")
    for family in FAMILIES.values():
        assert family.default_encoder in family.encoders
        assert set(family.encoders) <= set(ENCODERS)


def test_unknown_dtype_names_the_nearest_and_all() -> None:
    with pytest.raises(OctaveError) as caught:
        cache_dtype("octave_k3v5")
    assert "octave_k3v5" in str(caught.value)
    assert "did you mean octave_k3v" in str(caught.value)
    for name in CACHE_DTYPES:
        assert name in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("head", "rotary", "name", "word"),
    [
        (256, 256, "octave_k3v4", "full rotary"),
        (64, 64, "octave_k3v3", "full rotary"),
        (192, 64, "octave_k3v3_compact", "power of two"),
        (320, 64, "octave_k3v4_compact", "power of two"),
        (100, 64, "octave_k3v3", "head_size 100"),
        (0, 0, "octave_k3v3", "head_size 0"),
        (576, 64, "octave_k3v3", "to 512"),
        (256, 32, "octave_k3v4", "rotary_dims 32"),
        (256, 0, "octave_k3v4", "rotary_dims 0"),
        (256, -64, "octave_k3v4", "rotary_dims -64"),
        (256, 320, "octave_k3v3_compact", "rotary_dims 320"),
    ],
)
def test_refused_shapes_say_why(head: int, rotary: int, name: str, word: str) -> None:
    reason = family_of(cache_dtype(name)).refuse(head, rotary, cache_dtype(name))
    assert reason is not None
    assert word in reason


@pytest.mark.parametrize(
    ("head", "rotary", "name"),
    [(256, 64, n) for n in CACHE_DTYPES] + [(128, 64, n) for n in CACHE_DTYPES] + [(192, 64, "octave_k3v4")],
)
def test_offered_shapes_have_a_layout(head: int, rotary: int, name: str) -> None:
    dtype = cache_dtype(name)
    family = family_of(dtype)
    assert family.refuse(head, rotary, dtype) is None
    layout = family.layout(dtype, head, rotary)
    assert (layout.head_size, layout.fmt) == (head, dtype.fmt)
    assert family.layout_of_slot(head, layout.slot_bytes, dtype.fmt) == layout


def test_what_no_layout_can_hold_raises_the_reason() -> None:
    dtype = cache_dtype("octave_k3v3_compact")
    with pytest.raises(OctaveError, match="power of two"):
        family_of(dtype).layout(dtype, 192, 64)


def test_c_names_and_lines() -> None:
    assert c_name("slot_bytes") == "kSlotBytes"
    assert c_name("lut4_dword0") == "kLut4Dword0"
    assert render_c_ints({"slot_bytes": 248, "a": -1}) == (
        "static constexpr int kSlotBytes = 248;\nstatic constexpr int kA = -1;\n"
    )


def test_describing_formats_imports_no_torch() -> None:
    code = (
        "import sys; import octave_gen.formats as f\n"
        "for d in f.CACHE_DTYPES.values():\n"
        "    family = f.family_of(d); family.layout(d, 256, 64).c_constants(); family.c_constants()\n"
        "print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

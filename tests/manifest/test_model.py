"""Records, canonical JSON and what a reader accepts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octave_gen import __version__, manifest, plan, spec
from octave_gen.errors import OctaveError
from octave_gen.manifest import Record
from octave_gen.plan import Variant

DECODE = "decode_octave_k3v3_h256r64_g6_q4_f16_portable_gfx942"


def of(records: list[Record], kind: str) -> Record:
    """The fp16 record of the kind's portable tier."""
    (found,) = [r for r in records if (r["kind"], r["query_dtype"], r["tier"]) == (kind, "fp16", "portable")]
    return found


def test_record_holds_what_the_name_says(records: list[Record]) -> None:
    decode = of(records, "decode")
    assert decode["name"] == decode["symbol"] == DECODE
    assert decode["unit"] == "decode_octave_k3v3_h256r64_g6_q4_portable_gfx942"
    shape = ("cache_dtype", "head_size", "rotary_dims", "gqa_group", "query_group", "tier", "arch", "op", "family")
    assert [decode[key] for key in shape] == ["octave_k3v3", 256, 64, 6, 4, "portable", "gfx942", "decode", "octave"]
    assert decode["slot_bytes"] == 216
    assert decode["specs"] == ["small.toml"]
    assert decode["budget"]["vgprs"] == 128


def test_parts_that_do_not_apply_are_null(records: list[Record]) -> None:
    rotate = of(records, "rotate")
    assert rotate["name"] == "rotate_h256_f16_portable_gfx942"
    assert [rotate[key] for key in ("cache_dtype", "rotary_dims", "gqa_group", "query_group", "slot_bytes")] == [
        None
    ] * 5


def test_query_dtypes_are_spelt_as_in_a_spec(records: list[Record]) -> None:
    assert {record["query_dtype"] for record in records} == {"fp16", "bf16"}


def test_hashes_and_order_of_templates(records: list[Record]) -> None:
    decode = of(records, "decode")
    assert decode["source"] == {
        "path": f"gfx942/{decode['unit']}.hip",
        "sha256": hashlib.sha256(b"kernel\n").hexdigest(),
    }
    assert [file["path"] for file in decode["templates"]] == ["hip/a.j2", "hip/b.j2"]


def test_geometry_of_decode(records: list[Record]) -> None:
    assert of(records, "decode")["geometry"] == {
        "threads": 256,
        "wave_size": 64,
        "grid": [
            {"count": "queries", "per_workgroup": 4},
            {"count": "kv_heads", "per_workgroup": 1},
            {"count": "kv_splits", "per_workgroup": 1},
        ],
        "wide": [],
    }


def test_a_record_of_two_kernels_says_what_each_takes() -> None:
    shipped = plan.variants(spec.shipped(), ["gfx942"])
    variant = next(variant for variant in shipped if variant.name.startswith("decode_") and len(variant.symbols) > 1)
    record = manifest.record(variant, source_text="", templates={}, flags=())
    assert record["geometry"]["wide"] == [{"threads": 512, "workgroups": 304}]
    assert manifest.symbols(record) == [variant.name, f"{variant.name}_wide"]
    assert manifest.symbols(record) == [symbol.name for symbol in variant.symbols]
    taken = {name: {"vgprs": number} for number, name in enumerate(manifest.symbols(record))}
    built = manifest.built_record(record, code_object=b"", resources=taken)
    assert (built["resources"], built["wide_resources"]) == ({"vgprs": 0}, [{"vgprs": 1}])
    assert manifest.resources(built) == taken


def test_kernarg_table_is_aligned_and_complete(planned: list[Variant], records: list[Record]) -> None:
    for variant, record in zip(planned, records, strict=True):
        assert [entry["name"] for entry in record["kernarg"]] == [a.name for a in variant.tier.arguments]
        end = 0
        for entry in record["kernarg"]:
            assert entry["offset"] % entry["size"] == 0
            assert 0 <= entry["offset"] - end < entry["size"]
            end = entry["offset"] + entry["size"]


def test_evidence_claims_no_hardware(records: list[Record]) -> None:
    assert of(records, "store")["evidence"] == {"level": "interpreted", "by": None, "when": None}


def test_built_record_adds_the_code_object(records: list[Record], built: dict[str, Any]) -> None:
    for generated, made in zip(records, built["variants"], strict=True):
        assert made["code_object"] == {"sha256": hashlib.sha256(b"\x7fELF").hexdigest(), "size": 4}
        assert {key: made[key] for key in generated} == generated


def test_dump_is_canonical(built: dict[str, Any]) -> None:
    text = manifest.dump(built)
    assert json.loads(text) == built
    assert manifest.dump(dict(reversed(built.items()))) == text
    assert text.isascii()


def test_a_table_is_a_line_per_entry() -> None:
    value = {"b": "é", "a": [{"y": 2, "x": [1, 2]}, {"x": [], "y": None}], "c": {"z": True, "k": 0.5}}
    assert manifest.dump(value).splitlines() == [
        "{",
        '  "a": [',
        "    {",
        '      "x": [1, 2],',
        '      "y": 2',
        "    },",
        "    {",
        '      "x": [],',
        '      "y": null',
        "    }",
        "  ],",
        '  "b": "\\u00e9",',
        '  "c": {"k": 0.5, "z": true}',
        "}",
    ]


def test_dump_refuses_what_json_cannot_say() -> None:
    with pytest.raises(ValueError, match="JSON"):
        manifest.dump({"a": float("nan")})


def test_the_head_names_stage_and_project(records: list[Record], built: dict[str, Any]) -> None:
    generated = manifest.generated_manifest(records)
    assert (generated["stage"], built["stage"]) == ("generated", "built")
    assert generated["project"] == {"name": "octave-gen", "version": __version__}


def test_a_manifest_that_does_not_fit_the_schema_is_not_made(records: list[Record]) -> None:
    broken = {**records[0], "head_size": "256"}
    with pytest.raises(OctaveError, match=r"variants\[0\].head_size is \"256\", not integer"):
        manifest.generated_manifest([broken])
    with pytest.raises(OctaveError, match=r"fewer than 1"):
        manifest.generated_manifest([])


@pytest.fixture
def write(tmp_path: Path) -> Callable[[object], Path]:
    def write(value: object) -> Path:
        path = tmp_path / "manifest.json"
        path.write_text(value if isinstance(value, str) else manifest.dump(value))
        return path

    return write


def test_read_gives_back_what_was_written(write: Callable[[object], Path], built: dict[str, Any]) -> None:
    assert manifest.read(write(built)) == built


def test_read_keeps_unknown_keys_of_a_newer_minor(write: Callable[[object], Path], built: dict[str, Any]) -> None:
    newer = {**built, "schema_version": "1.7", "signature": "abc"}
    newer["variants"][0]["measured"] = {"clocks": 1}
    assert manifest.read(write(newer)) == newer


@pytest.mark.parametrize("version", ["2.0", "10.3", "0.9"])
def test_read_refuses_another_major(write: Callable[[object], Path], built: dict[str, Any], version: str) -> None:
    with pytest.raises(OctaveError, match=f"schema version is {version}; this octave-gen reads 1.x") as error:
        manifest.read(write({**built, "schema_version": version, "variants": "something else"}))
    assert "upgrade" in str(error.value)


@pytest.mark.parametrize("version", [None, 1, "1", "1.x", "", "one.two", True])
def test_read_refuses_what_has_no_version(write: Callable[[object], Path], built: dict[str, Any], version: Any) -> None:
    with pytest.raises(OctaveError, match="no schema_version"):
        manifest.read(write({**built, "schema_version": version}))


@pytest.mark.parametrize("value", ["[]", "3", "null", '"text"'])
def test_read_refuses_other_json(write: Callable[[object], Path], value: str) -> None:
    with pytest.raises(OctaveError, match="no schema_version"):
        manifest.read(write(value))


def test_read_names_an_unknown_stage(write: Callable[[object], Path], built: dict[str, Any]) -> None:
    with pytest.raises(OctaveError, match="stage is 'signed'"):
        manifest.read(write({**built, "stage": "signed"}))


def test_read_of_a_truncated_file(write: Callable[[object], Path], built: dict[str, Any]) -> None:
    text = manifest.dump(built)
    with pytest.raises(OctaveError, match="no JSON") as error:
        manifest.read(write(text[: len(text) // 2]))
    assert "octave-gen build" in str(error.value)


def test_read_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(b"\xff\x00\x80")
    with pytest.raises(OctaveError, match="no JSON"):
        manifest.read(path)


def test_read_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(OctaveError, match="no manifest") as error:
        manifest.read(tmp_path / "manifest.json")
    assert "octave-gen build" in str(error.value)
    with pytest.raises(OctaveError, match="cannot be read"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("key", ["library", "variants", "arch", "torch"])
def test_read_names_a_missing_key(write: Callable[[object], Path], built: dict[str, Any], key: str) -> None:
    del built[key]
    with pytest.raises(OctaveError, match=f"{key} is missing"):
        manifest.read(write(built))


@pytest.mark.parametrize("file", ["../evil.so", "/lib/evil.so", "liboctave_/../../x.so", "other.so", ""])
def test_read_refuses_a_library_outside_the_folder(
    write: Callable[[object], Path], built: dict[str, Any], file: str
) -> None:
    built["library"]["file"] = file
    with pytest.raises(OctaveError, match=r"library\.file"):
        manifest.read(write(built))


@pytest.mark.parametrize("before", ["", '{"schema_version": "1.0", "stage": '])
@pytest.mark.parametrize("depth", [900, 100_000])
def test_read_of_what_is_nested_too_deeply(write: Callable[[object], Path], before: str, depth: int) -> None:
    with pytest.raises(OctaveError, match=r"nested too deeply|no schema_version|stage is"):
        manifest.read(write(before + "[" * depth + "]" * depth + ("}" if before else "")))


def test_the_manifest_of_a_build(tmp_path: Path, built: dict[str, Any]) -> None:
    assert manifest.read_built(tmp_path, "gfx942") is None
    (tmp_path / "gfx942").mkdir()
    (tmp_path / "gfx942" / "manifest.json").write_text(manifest.dump(built))
    assert manifest.read_built(tmp_path, "gfx942") == built


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda made: made.update(stage="generated"), "it describes sources"),
        (lambda made: made.update(arch="gfx1100"), "it is of gfx1100"),
        (lambda made: made["variants"][0].update(arch="gfx1100"), "it is of gfx1100"),
    ],
)
def test_a_manifest_of_no_build_for_the_arch(
    tmp_path: Path, built: dict[str, Any], change: Callable[[dict[str, Any]], None], found: str
) -> None:
    change(built)
    (tmp_path / "gfx942").mkdir()
    (tmp_path / "gfx942" / "manifest.json").write_text(manifest.dump(built))
    with pytest.raises(OctaveError, match=f"describes no library for gfx942: {found}") as raised:
        manifest.read_built(tmp_path, "gfx942")
    assert f"octave-gen build --arch gfx942 --out {tmp_path}" in str(raised.value)

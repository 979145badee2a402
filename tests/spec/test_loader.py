"""Broken specs of every kind: each report is compared whole, so that follow-up errors would be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from octave_gen import __version__, spec
from octave_gen.arch import ARCHS
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.formats import FAMILIES, CacheDtype, cache_dtype
from octave_gen.formats.octave import OctaveFamily
from octave_gen.kernels import KINDS
from octave_gen.spec import unsupported
from octave_gen.spec.fields import RESOURCES, SELECTORS, spec_fields
from octave_gen.spec.model import Budget, BudgetRule, Spec
from octave_gen.spec.report import HINT

Report = Callable[[str], list[str]]
Text = Callable[..., str]

DATA = Path(__file__).parent / "data"
HEADS = "    allowed: 64, 128, 256, 512"
DIMS = "    allowed: 64, 128, 192, 256, 320, 384, 448, 512"
GROUPS = "    allowed: 1 to 16"
DTYPES = "    allowed: octave_k3v3_compact, octave_k3v3, octave_k3v4_compact, octave_k4v3_compact, octave_k3v4"
SCALARS = "    allowed: fp16, bf16"
ENCODERS = "    allowed: plain, search"
CHIPS = "    allowed: gfx942, gfx1100, gfx950"
KEYS = (
    "    allowed: edition, family, cache_dtypes, encoders, head_size, rotary_dims, gqa_groups, query_groups, "
    "query_dtypes, archs, kernels, budget"
)


def test_a_valid_spec_is_loaded_as_it_is_written(spec_text: Text, load_text: Callable[[str], Spec]) -> None:
    loaded = load_text(spec_text(edits={2: {"gqa_groups": "[6, 1]", "scratch_bytes": "16"}}))
    plain = Budget(vgprs=128, agprs=0, sgprs=102, lds_bytes=32768, occupancy=2)
    scratch = Budget(vgprs=128, agprs=0, sgprs=102, lds_bytes=32768, occupancy=2, scratch_bytes=16)
    assert loaded == Spec(
        source="mine.toml",
        family="octave",
        cache_dtypes=("octave_k3v3",),
        encoders=("plain",),
        head_size=256,
        rotary_dims=64,
        gqa_groups=(1, 6),
        query_groups=(1, 4),
        query_dtypes=("fp16",),
        archs=("gfx942",),
        budgets=(
            BudgetRule("store", "gfx942", plain),
            BudgetRule("rotate", "gfx942", plain),
            BudgetRule("decode", "gfx942", scratch, gqa_groups=(6, 1)),
            BudgetRule("reduce", "gfx942", plain),
        ),
    )


def test_a_label_replaces_the_file_name(spec_text: Text, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(spec_text())
    assert spec.load(file).source == "mine.toml"
    assert spec.load(file, label="team/mine.toml").source == "team/mine.toml"


TOP_LEVEL = {
    "integer as string": ("head_size", '"256"', ['  head_size: expected an integer, got the string "256"', HEADS]),
    "integer as float": ("rotary_dims", "64.0", ["  rotary_dims: expected an integer, got the float 64.0", DIMS]),
    "integer as bool": ("head_size", "true", ["  head_size: expected an integer, got the boolean true", HEADS]),
    "integer as date": ("head_size", "2024-01-01", ["  head_size: expected an integer, got a date or time", HEADS]),
    "integer as list": ("head_size", "[256]", ["  head_size: expected an integer, got a list", HEADS]),
    "integer as table": ("head_size", "{}", ["  head_size: expected an integer, got a table", HEADS]),
    "no multiple of 64": ("head_size", "200", ["  head_size: 200 is not a multiple of 64", HEADS]),
    "zero": ("rotary_dims", "0", ["  rotary_dims: 0 is out of range", DIMS]),
    "negative": ("head_size", "-64", ["  head_size: -64 is out of range", HEADS]),
    "head above 512": ("head_size", "576", ["  head_size: 576 is out of range", HEADS]),
    "beyond 64 bits": ("head_size", "0x" + "f" * 5000, ["  head_size: beyond 64 bits is out of range", HEADS]),
    "Phi-4-mini's rotary": ("rotary_dims", "96", ["  rotary_dims: 96 is not a multiple of 64", DIMS]),
    "string as integer": ("family", "3", ["  family: expected a string, got the integer 3", "    allowed: octave"]),
    "unknown family": ("family", '"turboquant"', ['  family: "turboquant" is no format family', "    allowed: octave"]),
    "family in wrong case": (
        "family",
        '"OCTAVE"',
        ['  family: "OCTAVE" is no format family (did you mean octave?)', "    allowed: octave"],
    ),
    "list as integer": (
        "gqa_groups",
        "6",
        ["  gqa_groups: expected a list, got the integer 6", GROUPS, "    fix: write gqa_groups = [6]"],
    ),
    "list as string": (
        "query_dtypes",
        '"bf16"',
        ['  query_dtypes: expected a list, got the string "bf16"', SCALARS, '    fix: write query_dtypes = ["bf16"]'],
    ),
    "list as a string that would not fit either": (
        "query_groups",
        '"4"',
        ['  query_groups: expected a list, got the string "4"', GROUPS],
    ),
    "empty list": ("query_groups", "[]", ["  query_groups: the list is empty", GROUPS]),
    "group 0": ("gqa_groups", "[0, 1, 6]", ["  gqa_groups[0]: 0 is out of range", GROUPS]),
    "group 17": ("gqa_groups", "[1, 6, 17]", ["  gqa_groups[2]: 17 is out of range", GROUPS]),
    "query group 32": ("query_groups", "[32]", ["  query_groups[0]: 32 is out of range", GROUPS]),
    "nested list": ("gqa_groups", "[[1]]", ["  gqa_groups[0]: expected an integer, got a list", GROUPS]),
    "bool beside 1": (
        "gqa_groups",
        "[1, true]",
        ["  gqa_groups[1]: expected an integer, got the boolean true", GROUPS],
    ),
    "duplicate": ("gqa_groups", "[1, 6, 1]", ["  gqa_groups[2]: 1 is already at gqa_groups[0]"]),
    "duplicate word": (
        "query_dtypes",
        '["fp16", "fp16"]',
        ['  query_dtypes[1]: "fp16" is already at query_dtypes[0]'],
    ),
    "two items of a list": (
        "query_dtypes",
        '["fp32", 16]',
        [
            '  query_dtypes[0]: "fp32" is no query dtype',
            SCALARS,
            "  query_dtypes[1]: expected a string, got the integer 16",
            SCALARS,
        ],
    ),
    "dtype in wrong case": (
        "query_dtypes",
        '["BF16"]',
        ['  query_dtypes[0]: "BF16" is no query dtype (did you mean bf16, fp16?)', SCALARS],
    ),
    "unknown cache dtype": (
        "cache_dtypes",
        '["octave_k4v4"]',
        [
            '  cache_dtypes[0]: "octave_k4v4" is no cache dtype (did you mean octave_k3v4, octave_k3v3, '
            "octave_k4v3_compact?)",
            DTYPES,
        ],
    ),
    "unknown encoder": (
        "encoders",
        '["serch"]',
        ['  encoders[0]: "serch" is no encoder (did you mean search?)', ENCODERS],
    ),
    "encoders without a list": (
        "encoders",
        '"plain"',
        [
            '  encoders: expected a list, got the string "plain"',
            ENCODERS,
            '    fix: write encoders = ["plain"]',
        ],
    ),
    "no encoder": (
        "encoders",
        "[]",
        ["  encoders: the list is empty", ENCODERS, "    fix: leave the key out to select every encoder"],
    ),
    "unknown arch": ("archs", '["gfx943"]', ['  archs[0]: "gfx943" is no arch (did you mean gfx942, gfx950?)', CHIPS]),
    "arch in wrong case": (
        "archs",
        '["GFX942"]',
        ['  archs[0]: "GFX942" is no arch (did you mean gfx942, gfx950?)', CHIPS],
    ),
    "target id": (
        "archs",
        '["gfx942:xnack-"]',
        ['  archs[0]: "gfx942:xnack-" is no arch (did you mean gfx942?)', CHIPS],
    ),
    "unsupported arch": (
        "archs",
        '["gfx942", "gfx908"]',
        ["  archs[1]: gfx908 is not supported: CDNA1: no kernel has been built or checked for it", CHIPS],
    ),
    "terminal escapes": (
        "family",
        '"\\u001b[31m"',
        ['  family: "\\u001b[31m" is no format family', "    allowed: octave"],
    ),
    "long string": (
        "family",
        '"' + "x" * 500 + '"',
        [f'  family: "{"x" * 55}..." is no format family', "    allowed: octave"],
    ),
    "edition 0": (
        "edition",
        "0",
        ["  edition: 0 is out of range", "    allowed: 1", "    fix: write edition = 1 as the first line"],
    ),
    "edition as string": (
        "edition",
        '"1"',
        [
            '  edition: expected an integer, got the string "1"',
            "    allowed: 1",
            "    fix: write edition = 1 as the first line",
        ],
    ),
    "edition missing": (
        "edition",
        None,
        ["  edition: missing", "    allowed: 1", "    fix: write edition = 1 as the first line"],
    ),
    "key missing": ("gqa_groups", None, ["  gqa_groups: missing", GROUPS]),
}


@pytest.mark.parametrize(("key", "value", "expected"), TOP_LEVEL.values(), ids=TOP_LEVEL)
def test_a_wrong_key_is_reported_once(
    key: str, value: str | None, expected: list[str], spec_text: Text, report: Report
) -> None:
    assert report(spec_text(top={key: value})) == expected


def _refusal(head_size: int, rotary_dims: int, dtype: str = "octave_k3v3") -> str:
    reason = FAMILIES["octave"].refuse(head_size, rotary_dims, cache_dtype(dtype))
    assert reason
    return reason


@pytest.mark.parametrize(
    ("head", "rotary", "possible", "reason"),
    [
        (256, 320, "64, 128, 192, 256", "rotary_dims 320"),
        (128, 64 * 3, "64, 128", "rotary_dims 192"),
        (64, 128, "64", "rotary_dims 128"),
    ],
)
def test_a_shape_that_no_dtype_of_the_family_holds(
    head: int, rotary: int, possible: str, reason: str, spec_text: Text, report: Report
) -> None:
    top = {"head_size": str(head), "rotary_dims": str(rotary), "cache_dtypes": '["octave_k3v3", "octave_k3v3_compact"]'}
    assert report(spec_text(top=top)) == [
        f"  rotary_dims: {_refusal(head, rotary)}",
        f"    allowed: {possible}",
    ]
    assert reason in _refusal(head, rotary)


@pytest.mark.parametrize("head", [64, 128, 256])
def test_of_a_full_rotary_head_compact_dtypes_hold_what_block_k_does_not(
    head: int, spec_text: Text, report: Report, load_text: Callable[[str], Spec]
) -> None:
    top = {"head_size": str(head), "rotary_dims": str(head)}
    assert report(spec_text(top={**top, "cache_dtypes": '["octave_k3v3_compact", "octave_k3v3"]'})) == [
        f"  cache_dtypes[1]: octave_k3v3: {_refusal(head, head)}",
        "    allowed: octave_k3v3_compact, octave_k3v4_compact, octave_k4v3_compact",
    ]
    assert "full rotary" in _refusal(head, head)
    assert load_text(spec_text(top={**top, "cache_dtypes": '["octave_k4v3_compact"]'})).rotary_dims == head


@pytest.mark.parametrize("rotary", ["64", '"wide"', "96"])
def test_a_head_that_no_tier_holds_is_one_problem(rotary: str, spec_text: Text, report: Report) -> None:
    top = {"head_size": "192", "rotary_dims": rotary, "cache_dtypes": '["octave_k3v4", "octave_k3v3_compact"]'}
    lines = report(spec_text(top=top))
    reason = "the portable tier holds head_size 64, 128, 256 and 512, not 192"
    assert lines[-2:] == [f"  head_size: store, rotate, decode, reduce: {reason}", HEADS]
    assert len(lines) == (2 if rotary == "64" else 4)


def test_a_head_is_held_where_each_kind_has_a_tier_for_it(
    every_head: None, spec_text: Text, load_text: Callable[[str], Spec], report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tier that holds it is enough for a kind; one kind without such a tier, on one chip, is too few."""
    top = {"head_size": "192"}
    assert load_text(spec_text(top=top)).head_size == 192
    reduce = KINDS["reduce"]
    narrow = replace(reduce.tiers[0], name="narrow", refuse=lambda s, _: None if s.head_size == 256 else "only 256")
    chip = ARCHS["gfx942"]
    monkeypatch.setitem(ARCHS, "gfx942", replace(chip, tiers=("narrow", *chip.tiers)))
    monkeypatch.setitem(KINDS, "reduce", replace(reduce, tiers=(narrow, *reduce.tiers)))
    assert load_text(spec_text(top=top)).head_size == 192
    monkeypatch.setitem(KINDS, "reduce", replace(reduce, tiers=(narrow,)))
    assert report(spec_text(top=top)) == [
        "  head_size: reduce: only 256",
        "    allowed: 256",
        '    fix: to leave the others out, write kernels = ["store", "rotate", "decode"]',
    ]
    on_gfx1100 = {i: {"arch": '"gfx1100"'} for i in range(4)}
    monkeypatch.setitem(KINDS, "reduce", reduce)
    assert load_text(spec_text(top={**top, "archs": '["gfx1100"]'}, edits=on_gfx1100)).head_size == 192


def test_the_dims_of_a_head_are_those_of_the_family(
    every_head: None, spec_text: Text, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fine(OctaveFamily):
        name = "fine"
        block_dims = 32
        max_head_size = 128

        def refuse(self, head_size: int, rotary_dims: int, dtype: CacheDtype) -> str | None:
            return None if rotary_dims < head_size else "no room"

    monkeypatch.setitem(FAMILIES, "fine", Fine())
    fine = {"family": '"fine"', "rotary_dims": "32"}
    heads = "    allowed: 64, 96, 128"
    assert report(spec_text(top={**fine, "head_size": "256"})) == ["  head_size: 256 is out of range", heads]
    assert report(spec_text(top={**fine, "head_size": "80"})) == ["  head_size: 80 is not a multiple of 32", heads]
    assert report(spec_text(top={**fine, "head_size": "96", "rotary_dims": "96"})) == [
        "  rotary_dims: no room",
        "    allowed: 32, 64",
    ]
    assert report(spec_text(top={"head_size": "96"}))[0] == "  head_size: 96 is not a multiple of 64"
    unknown = report(spec_text(top={"family": '"finer"', "head_size": "96"}))
    assert unknown[0] == '  family: "finer" is no format family (did you mean fine?)'
    assert len(unknown) == 2


def test_compact_names_the_head_that_it_cannot_hold_and_the_dtypes_that_can(
    every_head: None, spec_text: Text, report: Report
) -> None:
    top = {"head_size": "192", "cache_dtypes": '["octave_k3v3", "octave_k3v3_compact"]'}
    reason = _refusal(192, 64, "octave_k3v3_compact")
    assert report(spec_text(top=top)) == [
        f"  cache_dtypes[1]: octave_k3v3_compact: {reason}",
        "    allowed: octave_k3v3, octave_k3v4",
    ]
    assert "192 is no power of two" in reason


def test_every_group_from_1_to_16_and_every_dtype_is_allowed(spec_text: Text, load_text: Callable[[str], Spec]) -> None:
    every = str([*range(1, 17)])
    top = {
        "gqa_groups": every,
        "query_groups": every,
        "cache_dtypes": '["octave_k3v4", "octave_k3v3", "octave_k3v3_compact"]',
        "query_dtypes": '["bf16", "fp16"]',
    }
    loaded = load_text(spec_text(top=top))
    assert loaded.gqa_groups == loaded.query_groups == tuple(range(1, 17))
    assert loaded.query_dtypes == ("bf16", "fp16")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cache_dtype", "cache_dtypes"),
        ("encoder", "encoders"),
        ("head-size", "head_size"),
        ("Rotary_Dims", "rotary_dims"),
        ("gqa_group", "gqa_groups"),
        ("arch", "archs"),
        ("editon", "edition"),
    ],
)
def test_a_misspelt_key_is_not_missing_too(wrong: str, right: str, spec_text: Text, report: Report) -> None:
    text = spec_text()
    line = next(line for line in text.splitlines() if line.startswith(f"{right} = "))
    problem, allowed = report(text.replace(line, line.replace(right, wrong, 1), 1))
    assert problem.startswith(f"  {wrong}: unknown key (did you mean {right}")
    assert allowed == KEYS


def test_misspelt_budget_tables_are_one_problem(spec_text: Text, report: Report) -> None:
    text = spec_text().replace("[[budget]]", "[[budgets]]")
    assert report(text) == ["  budgets: unknown key (did you mean budget?)", KEYS]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("colour = 3", "  colour: unknown key"),
        ("gqa_group = [1]", "  gqa_group: unknown key (did you mean gqa_groups, query_groups?)"),
        ('"" = 1', '  "": unknown key'),
        ('"a.b" = 1', '  "a.b": unknown key'),
        ('"\\u001b[2J" = 1', '  "\\u001b[2J": unknown key'),
        ("model = { sliding_window = 4 }", "  model: unknown key"),
    ],
)
def test_an_unknown_key_beside_a_complete_spec(line: str, shown: str, spec_text: Text, report: Report) -> None:
    assert report(spec_text(text=line + "\n")) == [shown, KEYS]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("sliding_window", "not supported (sliding window attention): decode reads every token from the first to the "),
        ("alibi", "not supported (ALiBi): no kernel adds a position bias to the scores"),
        ("sinks", "not supported (attention sinks): the softmax runs over the cached tokens alone"),
        ("soft_cap", "not supported (soft-capping): scores are scaled by sm_scale and go to the softmax as they are"),
        ("encoder_attention", "not supported (encoder attention): the cache is that of a decoder"),
        ("full_rotary", "not supported (full rotary): rotary_dims = head_size says so, and only the compact dtypes"),
        ("Sliding-Window", "not supported (sliding window attention)"),
    ],
)
def test_known_features_are_refused_by_name_with_the_reason(
    key: str, shown: str, spec_text: Text, report: Report
) -> None:
    (line,) = report(spec_text(text=f"{key} = true\n"))
    assert line.startswith(f"  {key}: {shown}")


def test_no_refused_key_is_a_key_of_a_spec_or_listed_twice() -> None:
    refused = [key for feature in unsupported.UNSUPPORTED for key in feature.keys]
    own = {field.key for field in (*spec_fields({}), *SELECTORS)} | {resource.key for resource in RESOURCES}
    assert len(refused) == len(set(refused))
    assert not own & set(refused)
    assert all(unsupported.unsupported(key) for key in refused)
    assert unsupported.unsupported("colour") is None


def test_a_newer_edition_says_what_to_upgrade_and_nothing_else(spec_text: Text, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(spec_text(top={"edition": "2", "head_size": '"wide"'}, text="new_key = 1\n"))
    with pytest.raises(OctaveError) as caught:
        spec.load(file)
    assert caught.value.exit_code == WRONG_REQUEST
    assert str(caught.value) == (
        f"{file}: edition 2 needs a newer octave-gen: {__version__} reads edition 1\n"
        "  hint: upgrade octave-gen, or write the spec for edition = 1"
    )


def test_an_empty_file_lists_every_key(report: Report) -> None:
    lines = report("")
    assert [line for line in lines if not line.startswith("    ")] == [
        f"  {field.key}: missing" for field in spec_fields({}) if field.required
    ]


def test_broken_files_are_reported_together(spec_text: Text, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.toml", "fine.toml", "two.toml")]
    texts = (spec_text(top={"head_size": "200"}), spec_text(), spec_text(top={"gqa_groups": "[0]"}))
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    with pytest.raises(OctaveError) as caught:
        spec.load_all([*files, files[0]])
    assert caught.value.exit_code == WRONG_REQUEST
    assert str(caught.value).split("\n") == [
        "2 spec files cannot be used",
        f"{files[0]}: 1 problem",
        "  head_size: 200 is not a multiple of 64",
        HEADS,
        f"{files[2]}: 1 problem",
        "  gqa_groups[0]: 0 is out of range",
        GROUPS,
        f"  hint: {HINT}",
    ]
    with pytest.raises(OctaveError) as alone:
        spec.load_all(files[:2])
    with pytest.raises(OctaveError) as same:
        spec.load(files[0])
    assert str(alone.value) == str(same.value)


def test_files_that_are_broken_in_other_ways_keep_their_hints(spec_text: Text, tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text("edition = 2\n")
    (tmp_path / "old.toml").write_text("edition = = 1\n")
    with pytest.raises(OctaveError) as caught:
        spec.load_all([tmp_path / name for name in ("new.toml", "old.toml", "none.toml")])
    lines = str(caught.value).split("\n")
    assert lines[0] == "3 spec files cannot be used"
    assert lines[1].startswith(f"{tmp_path}/new.toml: edition 2 needs a newer octave-gen")
    assert lines[2] == "  hint: upgrade octave-gen, or write the spec for edition = 1"
    assert lines[3].startswith(f"{tmp_path}/old.toml:1:11: this is no TOML")
    assert lines[-2:] == [f"{tmp_path}/none.toml: there is no such file", "  hint: name the TOML file of a spec"]


def test_labels_are_file_names_or_paths_where_names_collide(
    spec_text: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.toml").write_text(spec_text())
    (tmp_path / "other.toml").write_text(spec_text())
    monkeypatch.chdir(tmp_path)
    files = [Path("a/mine.toml"), Path("other.toml"), tmp_path / "b" / "mine.toml", Path("a/mine.toml")]
    assert [one.source for one in spec.load_all(files)] == ["a/mine.toml", "other.toml", f"{tmp_path}/b/mine.toml"]
    assert [one.source for one in spec.load_all([files[0], files[0]])] == ["mine.toml"]
    assert spec.load_all([]) == []


def test_the_whole_report_of_a_spec_with_many_mistakes(portable_alone: None) -> None:
    """data/many_mistakes.txt is the report as a user reads it."""
    file = DATA / "many_mistakes.toml"
    with pytest.raises(OctaveError) as caught:
        spec.load(file)
    assert str(caught.value).replace(str(file), "many_mistakes.toml") + "\n" == (DATA / "many_mistakes.txt").read_text()

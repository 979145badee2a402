"""schema.json against jsonschema, and the reader's own check against both."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from octave_gen import manifest
from octave_gen.manifest import Record, schema

KNOWN_WORDS = {"$ref", "allOf", "type", "const", "pattern", "minimum", "required", "properties", "items", "minItems"}
WORDS_WITHOUT_EFFECT = {"description"}
ADDED = {"language", "flydsl", "encoder"}
"""Keys that a manifest of schema version 1.0 lacks."""


def rules(rule: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield rule
    children = [*rule.get("properties", {}).values(), *rule.get("allOf", [])]
    for child in [*children, *([rule["items"]] if "items" in rule else [])]:
        yield from rules(child)


def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema.load())


def test_the_schema_is_a_schema_and_is_shipped() -> None:
    assert schema.load()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema.load())
    assert json.loads(files("octave_gen.manifest").joinpath("schema.json").read_text()) == schema.load()


def test_both_stages_are_valid(records: list[Record], built: dict[str, Any]) -> None:
    for made in (manifest.generated_manifest(records), built):
        validator().validate(made)
        assert schema.problems(made, made["stage"]) == []


def test_the_schema_uses_no_word_that_the_reader_does_not_check() -> None:
    for definition in schema.load()["$defs"].values():
        for rule in rules(definition):
            assert set(rule) <= KNOWN_WORDS | WORDS_WITHOUT_EFFECT


def test_every_reference_has_its_definition() -> None:
    definitions = schema.load()["$defs"]
    for definition in definitions.values():
        for rule in rules(definition):
            if "$ref" in rule:
                assert rule["$ref"].removeprefix("#/$defs/") in definitions


def test_every_key_is_described_and_required(records: list[Record], built: dict[str, Any]) -> None:
    """A key that a manifest carries and the schema does not name would be a key that nobody documents."""

    def described(value: Any, rule: dict[str, Any]) -> None:
        while "$ref" in rule:
            rule = schema.load()["$defs"][rule["$ref"].removeprefix("#/$defs/")]
        properties = dict(rule.get("properties", {}))
        required = set(rule.get("required", ()))
        for part in rule.get("allOf", ()):
            part = schema.load()["$defs"][part["$ref"].removeprefix("#/$defs/")] if "$ref" in part else part
            properties |= part["properties"]
            required |= set(part["required"])
        if isinstance(value, dict):
            assert set(value) - ADDED == set(properties) - ADDED == required
            assert set(value) <= set(properties)
            for key, item in value.items():
                described(item, properties[key])
        if isinstance(value, list):
            for item in value:
                described(item, rule["items"])

    for made in (manifest.generated_manifest(records), built):
        described(made, {"$ref": f"#/$defs/{made['stage']}"})


def test_what_flydsl_compiled_names_it(built: dict[str, Any]) -> None:
    built["compiler"]["flydsl"] = {"version": "0.5.0", "identity": "ab"}
    validator().validate(built)
    assert schema.problems(built, built["stage"]) == []
    del built["compiler"]["flydsl"]["identity"]
    assert schema.problems(built, built["stage"]) == ["compiler.flydsl.identity is missing"]
    assert not validator().is_valid(built)


def test_a_manifest_of_version_1_0_is_still_one(records: list[Record]) -> None:
    assert {record["language"] for record in records} <= {"hip", "flydsl"}
    made = manifest.generated_manifest([{k: v for k, v in record.items() if k not in ADDED} for record in records])
    assert schema.problems(made | {"schema_version": "1.0"}, made["stage"]) == []


def broken(value: Any) -> Iterator[Any]:
    """``value`` with one thing changed: a key left out, or a part replaced by something else."""
    yield 1.5
    yield True
    if isinstance(value, dict):
        for key, item in value.items():
            yield {name: other for name, other in value.items() if name != key}
            for changed in broken(item):
                yield {**value, key: changed}
    elif isinstance(value, list):
        yield []
        if value:
            for changed in broken(value[0]):
                yield [changed, *value[1:]]
    elif isinstance(value, int):
        yield -1
        yield 0
        yield str(value)
    elif isinstance(value, str):
        yield ""
        yield value + "/"
        yield value.upper()
        yield 0
    else:
        yield "something"


def test_the_reader_agrees_with_jsonschema_on_every_damage(built: dict[str, Any]) -> None:
    built["variants"] = built["variants"][:1]
    whole = validator().evolve(schema={**schema.load()["$defs"]["built"], "$defs": schema.load()["$defs"]})
    refused = accepted = 0
    for damaged in broken(built):
        valid = whole.is_valid(damaged)
        assert (schema.problems(damaged, "built") == []) == valid, damaged
        refused += not valid
        accepted += valid
    assert refused > 300
    assert accepted > 50


def test_problems_name_the_place(built: dict[str, Any]) -> None:
    damaged = copy.deepcopy(built)
    damaged["variants"][2]["kernarg"][1]["offset"] = -4
    del damaged["library"]["sha256"]
    damaged["bundle"]["sha256"] = "g" * 64
    assert schema.problems(damaged, "built") == [
        f'bundle.sha256 is "{"g" * 36}..., which does not match ^[0-9a-f]{{64}}$',
        "library.sha256 is missing",
        "variants[2].kernarg[1].offset is -4, less than 0",
    ]


def test_the_number_of_problems_is_bounded(built: dict[str, Any]) -> None:
    damaged = {**built, "variants": [{}] * 100}
    assert len(schema.problems(damaged, "built")) == schema.MAX_PROBLEMS


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_what_is_no_object(value: object) -> None:
    assert schema.problems(value, "generated") == [f"the file is {json.dumps(value)}, not object"]

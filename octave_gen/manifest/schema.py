"""Checks a manifest against ``schema.json``, which is the one description of its keys.

Knows the JSON Schema words that the project's schemas use and no others, so that reading a manifest needs no
dependency.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).with_name("schema.json")
MAX_PROBLEMS: Final = 8

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


@cache
def load() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of both stages."""
    loaded: dict[str, Any] = json.loads(PATH.read_text(encoding="ascii"))
    return loaded


def problems(value: object, stage: str) -> list[str]:
    """At most ``MAX_PROBLEMS`` things that keep ``value`` from being a manifest of ``stage`` (generated or built)."""
    return misfits(value, {"$ref": f"#/$defs/{stage}", "$defs": load()["$defs"]})


def misfits(value: object, schema: dict[str, Any]) -> list[str]:
    """At most ``MAX_PROBLEMS`` things that keep ``value`` from fitting a schema in the words that this module knows."""
    found: list[str] = []
    _check(value, schema, "", found, schema.get("$defs", {}))
    return found[:MAX_PROBLEMS]


def _check(value: object, rule: dict[str, Any], where: str, found: list[str], named: dict[str, Any]) -> None:
    if len(found) > MAX_PROBLEMS:
        return
    if "$ref" in rule:
        _check(value, named[rule["$ref"].removeprefix("#/$defs/")], where, found, named)
    for part in rule.get("allOf", ()):
        _check(value, part, where, found, named)
    types = rule.get("type", [])
    allowed = [types] if isinstance(types, str) else types
    if allowed and not any(isinstance(value, _TYPES[name]) and not isinstance(value, bool) for name in allowed):
        found.append(f"{where or 'the file'} is {_shown(value)}, not {' or '.join(allowed)}")
        return
    if "const" in rule and value != rule["const"]:
        found.append(f"{where} is {_shown(value)}, not {rule['const']!r}")
    if isinstance(value, str) and "pattern" in rule and not re.search(rule["pattern"], value):
        found.append(f"{where} is {_shown(value)}, which does not match {rule['pattern']}")
    if isinstance(value, int) and "minimum" in rule and value < rule["minimum"]:
        found.append(f"{where} is {value}, less than {rule['minimum']}")
    if isinstance(value, dict):
        _check_object(value, rule, where, found, named)
    if isinstance(value, list):
        if len(value) < rule.get("minItems", 0):
            found.append(f"{where} has {len(value)} entries, fewer than {rule['minItems']}")
        for index, item in enumerate(value):
            _check(item, rule.get("items", {}), f"{where}[{index}]", found, named)


def _check_object(
    value: dict[str, Any], rule: dict[str, Any], where: str, found: list[str], named: dict[str, Any]
) -> None:
    prefix = f"{where}." if where else ""
    found += [f"{prefix}{key} is missing" for key in rule.get("required", ()) if key not in value]
    known = rule.get("properties", {})
    for key, item in value.items():
        part = known.get(key, rule.get("additionalProperties", {}))
        _check(item, part, prefix + key, found, named)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."

"""The record of what was generated and what was built."""

from __future__ import annotations

from octave_gen.manifest.model import (
    BUILT,
    FILE_NAME,
    GENERATED,
    SCHEMA_VERSION,
    VERIFICATION_FILE_NAME,
    Manifest,
    Record,
    built_manifest,
    built_record,
    dump,
    generated_manifest,
    read,
    read_built,
    record,
    resources,
    sha256,
    slot_bytes,
    symbols,
)

__all__ = [
    "BUILT",
    "FILE_NAME",
    "GENERATED",
    "SCHEMA_VERSION",
    "VERIFICATION_FILE_NAME",
    "Manifest",
    "Record",
    "built_manifest",
    "built_record",
    "dump",
    "generated_manifest",
    "read",
    "read_built",
    "record",
    "resources",
    "sha256",
    "slot_bytes",
    "symbols",
]

from __future__ import annotations

import pytest

from octave_gen.arch import ARCHS, Arch, Evidence
from octave_gen.evidence import evidence_words


def test_hardware_is_claimed_only_where_it_was() -> None:
    def chip(evidence: Evidence) -> Arch:
        return Arch(**{**vars(ARCHS["gfx942"]), "evidence": evidence})

    assert evidence_words(chip(Evidence("compiled"))) == "compiled, not executed"
    assert evidence_words(chip(Evidence("interpreted"))) == "executed and checked in an interpreter"
    hardware = evidence_words(chip(Evidence("hardware", "A. User", "2030-01-02")))
    assert hardware == "run on hardware by A. User, 2030-01-02"
    assert evidence_words(ARCHS["gfx950"]).endswith("interpreter; built with --allow-unvalidated only")
    with pytest.raises(KeyError):
        evidence_words(chip(Evidence("validated")))

"""The Octave family: Lloyd-Max codes of rotated K and V with norm-preserving scales. `codec` is its quantizer."""

from __future__ import annotations

from octave_gen.formats.octave.encoders import DEFAULT_ENCODER, ENCODERS
from octave_gen.formats.octave.family import OCTAVE, OctaveFamily
from octave_gen.formats.octave.layout import SlotLayout

__all__ = ["DEFAULT_ENCODER", "ENCODERS", "OCTAVE", "OctaveFamily", "SlotLayout"]

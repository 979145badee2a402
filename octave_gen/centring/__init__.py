"""The part of K that is the same for every token, found by calibration, so that cache_store can subtract it."""

from __future__ import annotations

from octave_gen.centring.calibration import Calibration, Center
from octave_gen.centring.file import as_key, load, save
from octave_gen.centring.rotary import Rotary

__all__ = ["Calibration", "Center", "Rotary", "as_key", "load", "save"]

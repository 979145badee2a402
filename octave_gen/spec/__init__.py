"""Specs: strict TOML files that say which kernels to build."""

from __future__ import annotations

from octave_gen.spec.loader import load, load_all, shipped
from octave_gen.spec.model import Budget, BudgetRule, CountedBudget, Spec

__all__ = ["Budget", "BudgetRule", "CountedBudget", "Spec", "load", "load_all", "shipped"]

"""Floating point operations of an op from its recorded inputs: `formula_of` the name of an event."""

from __future__ import annotations

from . import algebra, elements, network, products
from .table import FORMULAS, Formula, careful, formula_of

__all__ = ["FORMULAS", "Formula", "algebra", "careful", "elements", "formula_of", "network", "products"]

"""Measures of generalized tables that AD speaks of, or leaves open: diversity, shares, and other rules to choose by."""

from __future__ import annotations

import math

from sfumato.methods.generalization import Generalization, class_shares, least_entropy
from sfumato.values.arrays import FloatArray


def largest_l(table: FloatArray) -> float:
    """Return the largest l for which the table is l-diverse, exp of the least entropy."""
    return math.exp(least_entropy(table))


def largest_share(table: FloatArray) -> float:
    """Return the largest share of one sensitive value in a class: entropy l-diversity does not bound it by 1/l."""
    return float(class_shares(table).max())


def discernibility(table: FloatArray, found: Generalization) -> float:
    """Return the sum of the squared sizes of the classes."""
    return float((found.table.sum(axis=-1) ** 2).sum())


def height(table: FloatArray, found: Generalization) -> float:
    """Return the sum of the levels."""
    return sum(found.node)

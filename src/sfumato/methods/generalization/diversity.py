"""Entropy l-diversity (Machanavajjhala et al. 2006) of a joint table whose last axis is the sensitive attribute."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

import math

import numpy as np

from sfumato.values.arrays import FloatArray

TOLERANCE = 1e-9
"""Nats by which a class's entropy may fall short of ln l: a class that is exactly l-diverse passes, whatever its
floating-point sum. The sums themselves are off by about 1e-14."""


def class_shares(table: FloatArray) -> FloatArray:
    """Return the distribution of the sensitive values in every class that has records."""
    classes = table.reshape(-1, table.shape[-1])
    sizes = classes.sum(axis=1, keepdims=True)
    occupied = sizes[:, 0] > 0
    return np.asarray(classes[occupied] / sizes[occupied])


def least_entropy(table: FloatArray) -> float:
    """Return the least entropy of the sensitive values over the classes, min_c -sum_s p(c,s) ln p(c,s), in nats."""
    p = class_shares(table)
    logs = np.log(p, where=p > 0, out=np.zeros_like(p))
    return float((0 - (p * logs).sum(axis=1)).min())  # not -x: where one value is all, that would be -0


def is_diverse(table: FloatArray, l: float) -> bool:
    """Whether every class has an entropy of at least ln l.

    Entropy is concave, so a union of classes has at least the least entropy of its parts: diversity is kept by
    generalization and by leaving out an attribute.
    """
    return least_entropy(table) >= math.log(l) - TOLERANCE


def largest_l(table: FloatArray) -> float:
    """Return the largest l for which the table is l-diverse, exp of the least entropy.

    >>> round(largest_l(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]])), 12)
    2.0
    """
    return math.exp(least_entropy(table))


def largest_share(table: FloatArray) -> float:
    """Return the largest share of one sensitive value in a class: entropy l-diversity does not bound it by 1/l."""
    return float(class_shares(table).max())

"""A mechanism of each family, for studies of draws and coverage: gamma = 4, or classes of gammas around it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from sfumato.claims.claim import BOTH, UPWARD
from sfumato.methods.fine_grain import least_error
from sfumato.methods.fine_grain_solver import solve_both
from sfumato.methods.ordered.geometric import Geometric
from sfumato.methods.ordered.plateau import Plateau
from sfumato.methods.ordered.ranges import Ranges
from sfumato.methods.perturbation import round_within
from sfumato.methods.subset.method import best_deck
from sfumato.methods.uniform import Uniform
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.mechanism import Bound, Form, Mechanism

GAMMA = Fraction(4)


def domain_of(m: int) -> SensitiveDomain:
    return SensitiveDomain((Domain("value", tuple(range(m))),))


def _mechanism(matrix: Matrix, form: Form = "value") -> Mechanism:
    return Mechanism.single(domain_of(matrix.size), matrix, (Bound(None),) * matrix.size, form)


def _by_method(method: Uniform | Ranges | Plateau | Geometric, m: int) -> Mechanism:
    matrix = method.matrix_for(domain_of(m), (Bound(GAMMA),) * m, np.full(m, float(GAMMA)), np.ones(m))
    return _mechanism(matrix, "value" if matrix.publishes_values else "set")


def _classes(m: int) -> tuple[tuple[Bound, ...], FloatArray]:
    bounds = tuple(Bound(Fraction((3, 4, 6)[3 * k // m])) for k in range(m))
    return bounds, np.array([float(bound.gamma or 0) for bound in bounds])


def _least_error(directions: tuple[Direction, ...], m: int) -> Mechanism:
    bounds, gammas = _classes(m)
    return _mechanism(least_error(bounds, directions, gammas, np.ones(m)))


def _for_records(m: int) -> Mechanism:
    bounds, gammas = _classes(m)
    return _mechanism(round_within(solve_both(gammas, np.full(m, 1 / m)), bounds, BOTH))


def _near_columns(m: int) -> Mechanism:
    return _mechanism(DenseMatrix.from_shares([[m + 2 - abs(x - y) for y in range(m)] for x in range(m)]))


FAMILIES: dict[str, Callable[[int], Mechanism]] = {
    "uniform": partial(_by_method, Uniform()),
    "subset": lambda m: _mechanism(best_deck(m, Fraction(3)), "card"),
    "subset, each set once": lambda m: _mechanism(best_deck(m, Fraction(3)).with_distinct_cards(), "set"),
    "staircase": partial(_least_error, BOTH),
    "cover": partial(_least_error, UPWARD),
    "records": _for_records,
    "ranges": partial(_by_method, Ranges()),
    "ranges, values": partial(_by_method, Ranges(mixed_with="values")),
    "plateau": partial(_by_method, Plateau(alpha=0.6)),
    "geometric": partial(_by_method, Geometric(steps=2)),
    "file": _near_columns,
}

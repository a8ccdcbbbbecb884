"""The states that hide behind published values: all hidden columns of a formula together, merged as far as it allows.

A formula sees the true values only through some functions (its factors and conditions). Two values of a mechanism's
domain that no such function tells apart, whatever the other columns have, are one state. With S_j the states of
mechanism j,

    b[y, k] = sum over the values x of state k of P^-1[x, y]        E[b[y, k] | x] = 1 if x is of state k, else 0
    states together = S_1 x S_2 x ...        b = b_1 b_2 ...         (columns that were randomized independently)

Published values with the same weights, which show the same state, are one *class*: of a uniform matrix and one value
against all others two are left, however many values there are. Of sub-tables each has classes of its own.

A matrix without an inverse still tells some states: a = P'^+ f is checked by P'a = f, and states that it does not tell
are named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.analyst.randomized.channel import is_usable
from sfumato.errors import UsageError
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain, label
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism, SubTable

MOST_COMBINATIONS = 2_000_000
"""Of true values of all hidden columns of a formula, before they are merged."""
MOST_STATES = 20_000
MOST_DENSE = 4_000
"""Values of a matrix without an inverse that is solved by least squares."""
TOLD = 1e-8
"""How far P'a may be from f."""


@dataclass(frozen=True, eq=False)
class Classes:
    """What is told apart of the published values of one mechanism, and the weights of its states."""

    mechanism: Mechanism
    state_of: IntArray  # of each value of the domain
    first: IntArray  # the first value of each state
    start: IntArray  # of each sub-table, the number of its first output among all of them
    class_of: IntArray  # of each output of each sub-table
    weights: FloatArray  # (classes, states) b
    shown: FloatArray  # (classes, states) 1 for the state that is published; of a card, the shares of its values
    told: BoolArray  # (states,) which the matrices tell

    @property
    def size(self) -> int:
        """The number of states."""
        return self.first.size

    def chances(self) -> FloatArray | None:
        """Return Pr[class | state], (classes, states); None where it differs between the values of a state."""
        if len(self.mechanism.tables) > 1:
            return None
        matrix = self.mechanism.tables[0].matrix
        inside = (self.class_of == np.arange(self.weights.shape[0])[:, None]).astype(np.float64)
        by_value = matrix.apply_transposed(inside)  # (classes, values)
        if not np.allclose(by_value, by_value[:, self.first][:, self.state_of], rtol=0, atol=1e-12):
            return None
        return by_value[:, self.first]


def classes_of(mechanism: Mechanism, state_of: IntArray) -> Classes:
    """Return the classes of a mechanism whose values belong to these states."""
    first = np.unique(state_of, return_index=True)[1].astype(np.int64)
    made = [_of_table(mechanism, table, state_of, first.size) for table in mechanism.tables]
    start = np.cumsum([0, *(len(weights) for weights, _, _ in made)]).astype(np.int64)
    weights, shown = (np.concatenate([part[k] for part in made]) for k in (0, 1))
    told = np.logical_and.reduce([part[2] for part in made])
    table = np.repeat(np.arange(len(made)), np.diff(start))
    # equal weights may differ in their last digits; those of different outputs differ by much more, if at all
    key = np.column_stack([table, np.round(weights, 10) + 0.0, np.round(shown, 10)])
    _, place, class_of = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return Classes(
        mechanism, state_of, first, start, class_of.reshape(-1).astype(np.int64), weights[place], shown[place], told
    )


def _of_table(
    mechanism: Mechanism, table: SubTable, state_of: IntArray, states: int
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return b and what is shown, both (outputs, states), and which states are told."""
    own = state_of[table.codes]
    inside = (own == np.arange(states)[:, None]).astype(np.float64)  # (states, values)
    weights, told = _solved(table.matrix, inside)
    shown = inside.T if mechanism.form == "value" else _spread(table.matrix, inside)
    return weights.T, shown, told


def _spread(matrix: Matrix, inside: FloatArray) -> FloatArray:
    """Return the share of each card's values that belongs to each state, (cards, states)."""
    shares = np.zeros((matrix.outputs, len(inside)))
    for number in range(matrix.outputs):
        shares[number] = inside[:, matrix.card(number)].mean(axis=1)
    return shares


def _solved(matrix: Matrix, inside: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return a with P'a = f for each of these f, (states, outputs), and whether there is one."""
    if is_usable(matrix):
        solved = matrix.solve_transposed(inside)
        whole = inside.all(axis=1)  # then every weight is one, without any rounding
        solved[whole] = 1.0
        return solved, np.ones(len(inside), dtype=np.bool_)
    if matrix.outputs > MOST_DENSE:
        raise UsageError(
            f"The matrix has no inverse, and {matrix.outputs:,} values are too many to look for what it tells.",
            "Leave this column out of the formula.",
        )
    solved = inside @ np.linalg.pinv(matrix.dense(), rcond=1e-9)
    told = np.abs(matrix.apply_transposed(solved) - inside).max(axis=1) <= TOLD
    return solved, told


@dataclass(frozen=True, eq=False)
class States:
    """The states of all hidden columns of a formula; the last mechanism's run fastest."""

    domain: SensitiveDomain  # of all mechanisms, one after the other
    parts: tuple[Classes, ...]  # none where no hidden column was randomized: there are none, or they are in buckets
    code: IntArray  # a value of the domain for each state

    @property
    def size(self) -> int:
        """K."""
        return self.code.size

    @property
    def shows_states(self) -> bool:
        """Whether every row shows a state: values are published, not sets."""
        return all(part.mechanism.form == "value" for part in self.parts)

    def weights(self, classes: Sequence[IntArray]) -> FloatArray:
        """Return b, (rows, K), for the class of each row under each mechanism."""
        return _product([part.weights[own] for part, own in zip(self.parts, classes, strict=True)])

    def shown(self, classes: Sequence[IntArray]) -> FloatArray:
        """Return what each row shows, (rows, K), which sums to one."""
        return _product([part.shown[own] for part, own in zip(self.parts, classes, strict=True)])

    def published(self, classes: Sequence[IntArray]) -> IntArray:
        """Return the state that each row shows, where all mechanisms publish values."""
        state = np.zeros(classes[0].size, dtype=np.int64)
        for part, own in zip(self.parts, classes, strict=True):
            state = state * part.size + part.shown.argmax(axis=1)[own]
        return state

    def chances(self, classes: Sequence[IntArray]) -> FloatArray | None:
        """Return Pr[published | state], (rows, K), where it is the same for all values of a state."""
        chances = [part.chances() for part in self.parts]
        if any(chance is None for chance in chances):
            return None
        return _product([c[own] for c, own in zip(chances, classes, strict=True) if c is not None])

    def names(self, state: int) -> str:
        """Return how a state is called in messages: one of its values."""
        return label(self.domain.values[int(self.code[state])])


def _product(parts: Sequence[FloatArray]) -> FloatArray:
    whole = parts[0]
    for part in parts[1:]:
        whole = (whole[:, :, None] * part[:, None, :]).reshape(len(whole), -1)
    return whole


def joint_domain(mechanisms: Sequence[Mechanism]) -> SensitiveDomain:
    """Return the domain of several mechanisms; raise if it is too large."""
    domain = SensitiveDomain(tuple(part for mechanism in mechanisms for part in mechanism.domain.parts))
    if domain.size > MOST_COMBINATIONS:
        raise UsageError(
            f"The randomized columns {', '.join(domain.names)} have {domain.size:,} combinations of values; "
            f"{MOST_COMBINATIONS:,} are possible in one model.",
            "Leave a column out of the formula.",
        )
    return domain


def states_of(mechanisms: Sequence[Mechanism], functions: Sequence[FloatArray]) -> States:
    """Return the states that these functions of the joint domain tell apart, each (joint domain,)."""
    domain = joint_domain(mechanisms)
    sizes = [mechanism.domain.size for mechanism in mechanisms]
    codes = [np.unique(f, return_inverse=True)[1].reshape(sizes) for f in functions]
    parts = []
    for axis, mechanism in enumerate(mechanisms):
        seen = [np.moveaxis(code, axis, 0).reshape(sizes[axis], -1) for code in codes]
        parts.append(classes_of(mechanism, _merged(seen, sizes[axis])))
    states = math.prod(part.size for part in parts)
    if states > MOST_STATES:
        raise UsageError(
            f"The formula tells {states:,} combinations of randomized values apart; {MOST_STATES:,} are possible.",
            "Merge levels, C(x, sets={...}) or bins(x, 30, 50), or leave a randomized column out.",
        )
    grids = np.meshgrid(*(part.first for part in parts), indexing="ij")
    code = np.ravel_multi_index([grid.ravel() for grid in grids], sizes) if parts else np.zeros(1)
    return States(domain, tuple(parts), np.asarray(code).astype(np.int64))


def states_in_buckets(domain: SensitiveDomain) -> States:
    """Return every value as a state: the places of each value were filled by themselves."""
    return States(domain, (), np.arange(domain.size, dtype=np.int64))


def _merged(seen: Sequence[IntArray], size: int) -> IntArray:
    """Return the state of each value: those that are seen alike are one, numbered in order of their first values."""
    state = np.zeros(size, dtype=np.int64)
    for rows in seen:
        alike = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        state = np.unique(state * (int(alike.max(initial=0)) + 1) + alike, return_inverse=True)[1].reshape(-1)
    _, first, inverse = np.unique(state, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    return rank[inverse.reshape(-1)]

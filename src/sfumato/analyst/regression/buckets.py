"""Releases by buckets: the same equations, with weights that undo the deal, and the noise of the deal.

C[g, y] records of bucket g have state y, W = diag(1/|g|), n the column sums of C:

    a = W C (C'WC)^-1 diag(n)        C'a = diag(n), rows of a sum to one

With b_iy = a[g(i), y] the mean of the equations over the deal is U_T, because sum_g c_gx a_gy = n_y 1{x = y}. Given the
compositions, the records of x are permuted over its places. With amounts A_i(y) of the rows,

    bar_x = n_x^-1 sum_i a[g(i), x] A_i        r_g = sum_{i in g} a_g'A_i - sum_x c_gx a_g'bar_x
    population  sum_g r_g r_g' + sum_x n_x bar_xx bar_xx'
    table       sum_g r_g r_g' - (sum_i sum_x a[g(i), x] A_i(x) A_i(x)' - sum_x n_x bar_xx bar_xx')

Given the table an amount that is the same for all states adds the same to every deal, since rows of a sum to one. So
`table` may be taken of A_i(y) - c_i for any c_i of the row alone. With c_i the mean of A_i over the states most of what
cancels is gone beforehand: that is *steady*, and stands in where the first form is next to nothing, or below 0.

Where the deal was random inside strata, each has its own a and means, and all is added up. Chance says nothing about
*loose* buckets: they get the classical weights c_gy/|g|, and the largest error that these can have is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from sfumato.analyst.regression.blocks import Block, Noise
from sfumato.analyst.regression.problem import Buckets, Cells
from sfumato.errors import CannotMeet, SingularMatrix
from sfumato.show.words import share
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

MOST_LOOSE = 0.05
"""Share of the records that may lie in loose buckets."""
TOLD = 1e-9

Blocks = Callable[[], Iterator[Block]]
Amount = Callable[[Block], FloatArray]


def strata(buckets: Buckets) -> tuple[IntArray, BoolArray]:
    """Return the stratum of each bucket, numbered from 0, and which are loose."""
    size = buckets.compositions.shape[0]
    stratum = np.zeros(size, dtype=np.int64) if buckets.stratum is None else buckets.stratum
    loose = np.zeros(size, dtype=np.bool_) if buckets.loose is None else buckets.loose
    number = np.full(size, -1)
    number[~loose] = np.unique(stratum[~loose], return_inverse=True)[1]
    return number, loose


def classical_weights(buckets: Buckets) -> FloatArray:
    """Return c_gy/|g|, (buckets, K): those of the naive fit."""
    return np.asarray(buckets.compositions / buckets.compositions.sum(axis=1, keepdims=True))


def dealt_weights(buckets: Buckets) -> FloatArray:
    """Return a, (buckets, K); raise SingularMatrix where compositions do not tell states apart.

    States of a stratum that has no record of them are left out: their weight is 0.
    """
    number, loose = strata(buckets)
    _require_few(buckets, loose)
    weights = classical_weights(buckets)
    for s in range(number.max(initial=-1) + 1):
        weights[number == s] = _weights(buckets, number == s)
    return weights


def _weights(buckets: Buckets, chosen: BoolArray) -> FloatArray:
    C = buckets.compositions[chosen]
    held = C.sum(axis=0) > 0
    present = C[:, held]
    sizes = present.sum(axis=1)
    values, vectors = np.linalg.eigh(present.T @ (present / sizes[:, None]))
    hidden = values <= TOLD * values[-1]
    if hidden.any():
        raise _untold(buckets, np.flatnonzero(held)[(np.abs(vectors[:, hidden]) > 1e-6).any(axis=1)])
    weights = np.zeros_like(C)
    inverse = (vectors / values) @ vectors.T
    weights[:, held] = (present / sizes[:, None]) @ inverse * present.sum(axis=0)
    return weights


def _untold(buckets: Buckets, states: IntArray) -> SingularMatrix:
    named = ", ".join(repr(buckets.states[k]) for k in states)
    return SingularMatrix(
        f"The buckets do not tell these values apart: {named}.",
        "Merge them into one level, C(column, sets), or leave them out of the formula.",
    )


def _require_few(buckets: Buckets, loose: BoolArray) -> None:
    records = buckets.compositions.sum(axis=1)
    part = float(records[loose].sum() / records.sum())
    if part > MOST_LOOSE:
        raise CannotMeet(
            f"{share(part)} of the records lie in buckets that were not dealt by chance alone, above {MOST_LOOSE:.0%}.",
            "Ask for counts of these columns instead: their intervals allow for such buckets.",
        )


def noise_of_deal(buckets: Buckets, blocks: Blocks, amount: Amount) -> Noise:
    """Return the covariance of the sum over all rows of sum_y a[g, y] A(y); see the top."""
    shares = buckets.compositions.sum(axis=0) / buckets.compositions.sum()

    def centred(block: Block) -> FloatArray:
        own = amount(block)
        return np.asarray(own - np.einsum("gkc,k->gc", own, shares)[:, None])

    return replace(_noise(buckets, blocks, amount), steady=_noise(buckets, blocks, centred).table)


def _noise(buckets: Buckets, blocks: Blocks, amount: Amount) -> Noise:
    number, loose = strata(buckets)
    C, weights = buckets.compositions, dealt_weights(buckets)
    records = np.zeros((number.max(initial=-1) + 1, C.shape[1]))
    np.add.at(records, number[~loose], C[~loose])
    own, means, within = _sums_of_deal(blocks, amount, number, records)
    left = own[~loose]
    for s, mean in enumerate(means):
        inside = number[~loose] == s
        places = C[~loose][inside][:, :, None] * weights[~loose][inside][:, None, :]
        left[inside] -= places.reshape(len(places), -1) @ mean.reshape(-1, mean.shape[-1])
    between = left.T @ left
    diagonal = np.einsum("sxxc->sxc", means).reshape(-1, own.shape[1])
    of_states = diagonal.T @ (diagonal * records.reshape(-1, 1))
    return Noise(between - (within - of_states), between + of_states)


def _sums_of_deal(
    blocks: Blocks, amount: Amount, number: IntArray, records: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sums of a'A of each bucket, (buckets, c); bar, (strata, K, K, c); sum_i sum_x a A(x) A(x)', (c, c)."""
    own: FloatArray | None = None
    for block in blocks():
        A, group = rows_of(block, amount(block)), required_group(block.cells)
        if own is None:
            own = np.zeros((number.size, A.shape[2]))
            means = np.zeros((*records.shape, *A.shape[1:]))
            within = np.zeros((A.shape[2], A.shape[2]))
        counted = A * block.cells.count[:, None, None]
        np.add.at(own, group, (block.cells.weights[:, None] @ counted)[:, 0])
        dealt = number[group] >= 0
        for s in np.unique(number[group[dealt]]):
            chosen = number[group] == s
            sums = block.cells.weights[chosen].T @ counted[chosen].reshape(chosen.sum(), -1)
            means[s] += sums.reshape(means.shape[1:])
        flat, weight = A[dealt].reshape(-1, A.shape[2]), block.cells.weights[dealt] * block.cells.squares[dealt, None]
        within += flat.T @ (flat * weight.reshape(-1, 1))
    assert own is not None
    return own, means / np.maximum(records, 1)[..., None, None], within


def rows_of(block: Block, amount: FloatArray) -> FloatArray:
    """Return the amount of each cell, (R, K, c)."""
    return amount if block.cells.pattern is None else amount[block.cells.pattern]


def required_group(cells: Cells) -> IntArray:
    """Return the buckets of the cells."""
    if cells.group is None:
        raise ValueError("cells of a release by buckets need their bucket")
    return cells.group


def loose_errors(buckets: Buckets, blocks: Blocks, influence: Amount) -> FloatArray:
    """Return the largest error that classical weights of loose buckets can make, of each coefficient.

    The influence f_i(y) of a record with state y is (H^-1 psi_i(y))_j. A bucket's records have its values in some
    order; the farthest of all orders from the classical sum is an assignment problem. Weights of the rows are in f.
    """
    loose = strata(buckets)[1]
    amounts, groups = [], []
    for block in blocks():
        group = required_group(block.cells)
        chosen = loose[group]
        amounts.append((rows_of(block, influence(block)) * block.cells.count[:, None, None])[chosen])
        groups.append(group[chosen])
    f, group = np.concatenate(amounts), np.concatenate(groups)
    errors = [_farthest(f[group == g], buckets.compositions[g]) for g in np.unique(group)]
    return np.sum(errors, axis=0) if errors else np.zeros(f.shape[2])


def _farthest(f: FloatArray, composition: FloatArray) -> FloatArray:
    """Return max over orders of |sum_i f_i(x_i) - classical|, for each of the amounts f: (records, K, c)."""
    from scipy.optimize import linear_sum_assignment  # half a second that only loose buckets need

    places = np.repeat(np.arange(composition.size), composition.astype(np.int64))
    classical = np.einsum("rkc,k->c", f, composition / composition.sum())
    farthest = np.empty(f.shape[2])
    for c in range(f.shape[2]):
        cost = f[:, places, c]
        ends = (cost[linear_sum_assignment(cost, maximize=most)].sum() for most in (True, False))
        farthest[c] = max(abs(end - classical[c]) for end in ends)
    return farthest

"""What a release gives away, measured alike for all methods: how often a guesser is right about a person's value.

The guesser knows the quasi-identifiers of everybody in the table, the release with its manifest, and nothing else. Of a
person they believe in values u by a row-by-row estimate of how these depend on the quasi-identifiers a,

    b(u | a)  <-  mean over the rows r that the person may be of        b(u | a) C[o_r, u] / sum_k b(k | a) C[o_r, k]

with o_r what the row shows instead of the value (a randomized value, a sub-table, a group) and C[o, u] the chance that
a record of value u shows it. They guess the u of the largest b. Where they start and when they stop makes several
guessers:

    most frequent            the estimated shares of the values, no step
    rows                     one step from there: the mean of what the rows tell; in groups, of the shares in them
    two-way tables           the estimated tables of each quasi-identifier and the value, taken as independent given it
    two-way tables and rows  one step from there
    joint table              many steps: towards the likeliest table of all quasi-identifiers and the value

The one that is right most often counts: as if it were known beforehand which one that is. In groups C takes the members
one by one; what the values of some tell of the others is left out. `worst` is the largest belief in the true value of a
person by `rows`: the beliefs of the others are fitted, some to single rows, and would be 1 somewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.analyst.randomized.channel import Randomization
from sfumato.auditor.attackers.linking_guesser import attack_of
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.compare.original import Estimates, Original, pair_tables
from sfumato.auditor.compare.walking import Walk
from sfumato.auditor.evidence import Evidence
from sfumato.errors import SfumatoError
from sfumato.methods.response import guessing
from sfumato.methods.response.joint import Mix, product
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.base import Estimable

STEPS = (10, 50)  # after which `joint table` stops: few steps fit less noise, many find more
SHARE_STEPS = 300  # steps that estimate the shares of values
TIE = 1e-9  # the relative distance of two beliefs that count as equal: in groups many are, but for rounding
FLOOR = 0.5  # records that an estimated cell of a two-way table has, at least
FREQUENT, ROWS, PAIRS, BOTH, JOINT = (
    "most frequent", "rows", "two-way tables", "two-way tables and rows", "joint table"
)  # fmt: skip


@dataclass(frozen=True)
class Guessed:
    """How often the best of the guessers is right, over all people of the table."""

    success: float
    guesser: str
    worst: float
    others: dict[str, float]  # the success of each


def measured(counts: FloatArray, beliefs: Mapping[str, Sequence[FloatArray]]) -> Guessed:
    """Return the success of each guesser; counts and beliefs by combination and value, `rows` among them.

    >>> people, rows = np.array([[3.0, 1.0], [0.0, 4.0]]), np.array([[0.6, 0.4], [0.5, 0.5]])
    >>> measured(people, {"rows": [rows], "joint table": [people, rows]}).others
    {'rows': 0.375, 'joint table': 0.875}
    """
    people = counts.sum()
    lines = np.arange(len(counts))
    success = {
        name: max(float(counts[lines, _likeliest(np.broadcast_to(b, counts.shape))].sum() / people) for b in found)
        for name, found in beliefs.items()
    }
    best = max(success, key=lambda name: success[name])
    told = np.broadcast_to(beliefs[ROWS][0], counts.shape)
    return Guessed(success[best], best, float(told[counts > 0].max()), success)


def _likeliest(beliefs: FloatArray) -> IntArray:
    """Return the value of the largest belief; of those that differ by rounding only the first."""
    return np.asarray((beliefs >= (1 - TIE) * beliefs.max(axis=1, keepdims=True)).argmax(axis=1))


def guess(evidence: Evidence, original: Original, estimates: Estimates) -> Guessed:
    return (_on_response if evidence.kind == "response" else _on_rows)(evidence, original, estimates)


def guess_classes(classes: FloatArray) -> Guessed:
    """The same where exact numbers of values are published by classes that tell who is in them ([class, value])."""
    occupied = classes[classes.sum(axis=1) > 0]
    shares = occupied / occupied.sum(axis=1, keepdims=True)
    return measured(occupied, {ROWS: [shares], FREQUENT: [occupied.sum(axis=0)]})


# --- rows with their own quasi-identifiers ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shown:
    outputs: IntArray  # of each row
    chances: FloatArray  # C: [output, value]
    shares: FloatArray  # of the values, estimated


def _on_rows(evidence: Evidence, original: Original, estimates: Estimates) -> Guessed:
    own, size = evidence.signatures(original.quasi_identifiers), original.values
    people = cross_counts(own.table, original.numbers(original.sensitive), own.size, size).astype(np.float64)
    show = _groups if evidence.manifest.in_buckets else _products if evidence.by_mechanism else _matrices
    shown = show(evidence, original)
    walk = Walk.of(own.size, own.release, shown.outputs, shown.chances)
    once, *stopped = walk.steps(shown.shares, (1, *STEPS))
    beliefs: dict[str, list[FloatArray]] = {FREQUENT: [shown.shares], ROWS: [once], JOINT: stopped}
    codes = dict(zip(own.columns, own.codes, strict=True))
    if (pairs := _from_pairs(original, estimates, codes, shown.shares)) is not None:
        beliefs |= {PAIRS: [pairs], BOTH: [walk.step(pairs)]}
    return measured(people, beliefs)


def _groups(evidence: Evidence, original: Original) -> Shown:
    """Rows show their group: C[g, u] = c_g(u) / N_u, with N_u the published records of u."""
    tables, values = evidence.group_tables, evidence.values
    place = np.ravel_multi_index(values.codes, original.shape(values.columns))
    numbers = np.zeros((tables.sizes.size, original.values))
    np.add.at(numbers, (tables.groups, place[tables.values]), tables.counts)
    total = numbers.sum(axis=0)
    return Shown(tables.rows, numbers / np.maximum(total, 1), total / total.sum())


def _matrices(evidence: Evidence, original: Original) -> Shown:
    """Rows show their sub-table t and a randomized value or card y: C[(t, y), u] = Pr(t | u) P_t[y, u].

    Pr(t | u) is what the estimated shares of the sub-tables give.
    """
    mechanism, sub_tables, published = evidence.mechanism, evidence.sub_tables.astype(np.int64), evidence.published
    size, place = mechanism.published.size, _places(mechanism.domain, original)
    weights = np.zeros((len(mechanism.tables), original.values))
    for t, table in enumerate(mechanism.tables):
        observed = np.bincount(published[sub_tables == t], minlength=size)[table.published].astype(np.float64)
        weights[t, place[table.codes]] = _shares(table.matrix, observed) * observed.sum()
    total = weights.sum(axis=0)
    used, outputs = np.unique(sub_tables * size + published, return_inverse=True)
    chances = np.zeros((used.size, original.values))
    for t, table in enumerate(mechanism.tables):
        lines = np.flatnonzero(used // size == t)
        inside = table.rows_of((used[lines] % size).astype(np.int32))
        of_table = place[table.codes]
        dealt = weights[t, of_table] / np.maximum(total[of_table], 1e-300)
        chances[np.ix_(lines, of_table)] = table.matrix.chances(inside[:, None], np.arange(table.codes.size)) * dealt
    return Shown(outputs.astype(np.int64), chances, total / total.sum())


def _products(evidence: Evidence, original: Original) -> Shown:
    """Rows show a randomized value or card of every column: C[(y_1, y_2), (u_1, u_2)] = P_1[y_1, u_1] P_2[y_2, u_2]."""
    together = Randomization(tuple(part.mechanism for part in evidence.by_mechanism))
    channel = together.joint(together.names)
    matrix, place = channel.tables[0].matrix, _places(channel.domain, original)
    split = [part.mechanism.published.split(part.published) for part in evidence.by_mechanism]
    published = channel.published.join([codes for of_part in split for codes in of_part])
    used, outputs = np.unique(published, return_inverse=True)
    chosen = np.zeros((used.size, matrix.outputs))
    chosen[np.arange(used.size), used] = 1.0
    chances, shares = np.zeros((used.size, original.values)), np.zeros(original.values)
    chances[:, place] = matrix.apply_transposed(chosen)
    shares[place] = _shares(matrix, np.bincount(published, minlength=matrix.outputs).astype(np.float64))
    return Shown(outputs.astype(np.int64), chances, shares)


def _places(domain: SensitiveDomain, original: Original) -> IntArray:
    """Return the place, among the values of the table, of each value of a domain."""
    columns = domain.codes
    places = [_codes(original, part)[codes] for part, codes in zip(domain.parts, columns, strict=True)]
    return np.ravel_multi_index(places, original.shape(domain.names))


def _codes(original: Original, part: Domain) -> IntArray:
    """Return the code in the table of each value of a column."""
    index = original.columns[part.name].index
    return np.array([index[text] for text in part.labels], dtype=np.int64)


def _shares(matrix: Estimable, observed: FloatArray) -> FloatArray:
    """Return the likeliest shares of values, by iterative Bayes: x <- x P^T(o / P x)."""
    x = np.full(matrix.size, 1 / matrix.size)
    total = max(1.0, float(observed.sum()))
    for _ in range(SHARE_STEPS):
        x = x * matrix.apply_transposed(observed / np.maximum(matrix.apply(x), 1e-300)) / total
    return np.asarray(x / x.sum())


def _from_pairs(
    original: Original, estimates: Estimates, codes: Mapping[str, npt.NDArray[np.integer]], shares: FloatArray
) -> FloatArray | None:
    """Return b(u | a) ~ f_u prod_k Pr(a_k | u), from the estimated two-way tables; None where there are none."""
    with np.errstate(divide="ignore"):
        logs = np.log(shares)
    found = None
    for names in pair_tables(original):
        try:
            table = np.maximum(estimates(names).reshape(-1, original.values), FLOOR)
        except SfumatoError:
            return None
        told = np.log(table / table.sum(axis=0))[codes[names[0]]]
        found = told if found is None else np.add(found, told, out=found)
    if found is None:
        return None
    found += logs
    found -= found.max(axis=1, keepdims=True)
    beliefs: FloatArray = np.exp(found, out=found)
    beliefs /= beliefs.sum(axis=1, keepdims=True)
    return beliefs


# --- rows with randomized quasi-identifiers ---------------------------------------------------------------------------


def _on_response(evidence: Evidence, original: Original, estimates: Estimates) -> Guessed:
    """The same where any row may be the person's: a row with b is by Pr(b | a), and tells h(u | b).

    `rows` is who links by that and takes the value of the row (corrected, where it was randomized too).
    """
    found = evidence.once(attack_of)
    truth, channels, released = found.axes.table, found.channels, found.released
    where = tuple(truth.groups.T)
    values = channels[-1].matrix
    shares = _shares(values, released.reshape(-1, released.shape[-1]).sum(axis=0))
    beliefs: dict[str, list[FloatArray]] = {
        FREQUENT: [shares],
        ROWS: [_linked(released, [channel.forward for channel in channels[:-1]], values.dense(), shares)[where]],
        JOINT: [joint[where] for joint, _ in guessing.estimates(channels, released, STEPS, np.float32)],
    }
    place = _places(found.axes.profile.sensitive_domain, original)
    columns = zip(found.axes.profile.quasi_domain.parts, found.axes.codes(truth.groups).T, strict=True)
    codes = {part.name: _codes(original, part)[column] for part, column in columns}
    placed = np.zeros(original.values)
    placed[place] = shares
    if (pairs := _from_pairs(original, estimates, codes, placed)) is not None:
        beliefs[PAIRS] = [pairs[:, place]]
    return measured(truth.counts, beliefs)


def _linked(released: FloatArray, quasi: Sequence[Mix], values: FloatArray, shares: FloatArray) -> FloatArray:
    """Return sum_b P[b, a] h(b, u) over the rows that are there: (P^T (o h)) / (P^T o), o the rows with b."""
    likely = values * shares  # [published value, value]
    told = likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-300)
    hits = product(quasi, released @ told)
    rows = product(quasi, released.sum(axis=-1, keepdims=True))
    return np.asarray(hits / np.maximum(rows, 1e-300))

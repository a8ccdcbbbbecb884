"""The attacker who reads all sensitive columns of a row together, where each has a mechanism of its own.

They know how often each combination of values occurs in the table, and what the columns tell of each other. With
K(y | z) = prod_j P_j[y_j, z_j] the published y multiplies the odds of a statement A by

    E[K(y | z) | z in A] / E[K(y | z) | z not in A]

which is at most prod_j G_j for any A, and for "column i is x" at most gamma_x prod_{j != i} G_j (`claims/several.py`).
Both are measured on the rows that were published: of each combination that occurs, and of each value of each column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.auditor.attacker import Role, listed
from sfumato.auditor.evidence import Evidence, NotMeasured
from sfumato.auditor.finding import CLOSE, Finding, Nearest, held_to, largest_at, most_exposed, nearer
from sfumato.claims.several import besides, together
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.mechanism import Bound, Mechanism

MOST_PAIRS = 1 << 28
"""Of combinations that are published and that occur: beyond, to compare them takes minutes."""
AT_ONCE = 1 << 22
"""Pairs that are held at a time."""
ASSUMPTION = (
    "Knows the matrices, and how often each combination of the sensitive values occurs in the table; reads all "
    "sensitive columns of the row together; holds records to be independent."
)


@dataclass(frozen=True)
class Factors:
    """By how much the odds of some statements were multiplied, at most, over all published rows."""

    names: tuple[str, ...]
    factors: FloatArray
    records: IntArray  # for which the statement is true


def of_several(evidence: Evidence) -> Iterator[Finding]:
    """Yield what all columns tell of combinations, and of each column."""
    parts = evidence.by_mechanism
    cells, counts = np.unique(_beside([part.true for part in parts]), axis=0, return_counts=True)
    seen = np.unique(_beside([part.published for part in parts]), axis=0)
    if len(cells) * len(seen) > MOST_PAIRS:
        raise NotMeasured(
            f"{len(seen):,} combinations are published and {len(cells):,} occur, too many to be compared."
        )
    mechanisms = [part.mechanism for part in parts]
    whole, *columns = _factors(mechanisms, cells, counts, seen)
    limit = together(mechanisms)
    yield _finding(evidence, whole, [limit] * whole.factors.size, "combinations")
    for place, (part, found) in enumerate(zip(parts, columns, strict=True)):
        bounds = _limits(part.mechanism, part.manifest.guarantee.scope == "any predicate")
        others = besides(mechanisms, place)
        limits = [None if gamma is None or others is None else gamma * others for gamma in bounds]
        yield _finding(evidence, found, limits, part.mechanism.domain.name)


def _beside(columns: Sequence[CodeArray]) -> IntArray:
    return np.column_stack(columns).astype(np.int64)


def _limits(mechanism: Mechanism, any_predicate: bool) -> list[Fraction | None]:
    """Return what is promised of each value by its own column: its bound, or the strictest of all."""
    own: list[Bound] = list(mechanism.bounds)
    strictest = min((bound.gamma for bound in own if bound.gamma is not None), default=None)
    return [strictest if any_predicate else bound.gamma for bound in own]


def _factors(mechanisms: Sequence[Mechanism], cells: IntArray, counts: IntArray, seen: IntArray) -> Iterator[Factors]:
    """Give the factors of the combinations that occur, and of the values of each column."""
    shares = counts / counts.sum()
    # statements: cells that have each value; a combination is a value of itself
    statements = [np.arange(len(cells)), *cells.T]
    sizes = [len(cells), *(mechanism.domain.size for mechanism in mechanisms)]
    held = [np.bincount(of, counts, size) for of, size in zip(statements, sizes, strict=True)]
    found = [np.zeros(size) for size in sizes]
    tables = [_rows(mechanism, seen[:, place]) for place, mechanism in enumerate(mechanisms)]
    for first in range(0, len(seen), max(1, AT_ONCE // len(cells))):
        chunk = slice(first, first + max(1, AT_ONCE // len(cells)))
        chance = np.ones((len(seen[chunk]), len(cells)))
        for (rows, number), of in zip(tables, cells.T, strict=True):
            chance *= rows[number[chunk]][:, of]
        weight = chance * shares
        total = weight.sum(axis=1, keepdims=True)
        for most, of, records in zip(found, statements, held, strict=True):
            inside = _added(weight, of, most.size)
            share = records / records.sum()
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = inside / share * (1 - share) / (total - inside)
            factor = np.where((share > 0) & (share < 1), factor, 0.0)
            np.maximum(most, factor.max(axis=0), out=most)
    labels = [
        tuple(" / ".join(m.domain.labels[code] for m, code in zip(mechanisms, cell, strict=True)) for cell in cells),
        *(mechanism.domain.labels for mechanism in mechanisms),
    ]
    for names, most, records in zip(labels, found, held, strict=True):
        yield Factors(names, most, records.astype(np.int64))


def _rows(mechanism: Mechanism, published: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the rows of a matrix that were published, P[y, .] each, and the place of each published one among them."""
    codes, place = np.unique(published, return_inverse=True)
    chosen = np.zeros((codes.size, mechanism.matrix.outputs))
    chosen[np.arange(codes.size), codes] = 1.0
    return mechanism.matrix.apply_transposed(chosen), place


def _added(weights: FloatArray, value: IntArray, size: int) -> FloatArray:
    """Return the weights of cells added up by the value that each has."""
    order = np.argsort(value, kind="stable")
    present, first = np.unique(value[order], return_index=True)
    added = np.zeros((len(weights), size))
    added[:, present] = np.add.reduceat(weights[:, order], first, axis=1)
    return added


def _belief(factor: float) -> float:
    """Return what even odds become."""
    return factor / (1 + factor)


def _finding(evidence: Evidence, found: Factors, limits: Sequence[Fraction | None], about: str) -> Finding:
    bounds = np.array([np.inf if limit is None else float(limit) for limit in limits])
    beliefs = found.factors / (1 + found.factors)
    worst, near = largest_at(beliefs), largest_at(found.factors / bounds)
    promised = np.isfinite(bounds[worst])
    limit = _belief(float(bounds[worst])) if promised else None
    nearest = Nearest(found.names[near], float(beliefs[near]), _belief(float(bounds[near])))
    is_nearer = promised and np.isfinite(bounds[near])
    return Finding(
        attacker="combination",
        question="What do all sensitive columns of a row tell together of its true values?",
        assumption=ASSUMPTION,
        measured=(
            "the largest factor by which a published row multiplies the odds of a statement, told as what becomes of "
            "even odds; exact"
        ),
        worst=float(beliefs[worst]),
        records=evidence.rows,
        at_risk=int(found.records[found.factors > bounds * (1 + CLOSE)].sum()),
        **held_to(limit, bool(promised)),
        baseline=0.5,
        exposed=most_exposed(beliefs, found.records, lambda code: found.names[code]),
        remark=f"The odds rise by a factor of {found.factors[worst]:.4g}; allowed are {_shown(limits[worst])}.",
        about=about,
        who=found.names[worst],
        nearest=nearer(nearest, float(beliefs[worst]), limit) if is_nearer and limit is not None else None,
        why_bound="The bound is that of all columns read together, told from even odds.",
        why_not_covered=""
        if promised
        else "One of the matrices bounds no factor, or nothing is required of the value.",
    )


def _shown(limit: Fraction | None) -> str:
    return "any" if limit is None else f"{float(limit):.4g}"


ROLE = Role(
    name="combination",
    knows="reads all sensitive columns of a row together, and knows how they go together",
    public=listed(7, True, "several"),
)
"""By which name findings go: `column` lets it loose, where sensitive columns have mechanisms of their own."""

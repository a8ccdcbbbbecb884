"""The attacker who has a register of people, and links it with the release by quasi-identifiers.

row       one of the N rows that are published with the person's values: 1/N
value     believed by its mean over these rows, of which each tells

    randomized    P[y, x] f_x / sum_k P[y, k] f_k, f the shares of the row's sub-table
    groups        the share of x in the row's group
    response      the published value, corrected likewise where it was randomized
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.auditor.attacker import Attacker, everywhere
from sfumato.auditor.attackers.composition import MOST_VALUES
from sfumato.auditor.attackers.order import sensitive_values
from sfumato.auditor.beliefs import compositions, limits_at
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import DoesNotApply, Evidence, NotMeasured
from sfumato.auditor.finding import ROUNDING, Exposed, Finding, held_to, largest_at, most_exposed, named
from sfumato.auditor.knowledge import combined, open_register
from sfumato.errors import UsageError
from sfumato.show.words import share
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.base import Matrix

FEW = 5  # a person is linked to few rows if there are fewer
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Register:
    """People of a register, by distinct combinations of their values, and how many rows each may be."""

    columns: tuple[str, ...]
    people: IntArray  # of each combination
    labels: tuple[str, ...]
    candidates: IntArray  # the rows that a person of each combination may be


@dataclass(frozen=True, eq=False)
class Told:
    """What rows tell: sums of beliefs [combination, value], and the bound on each value (inf: none)."""

    sums: FloatArray
    limits: FloatArray
    promised: bool
    names: tuple[str, ...]
    knows: str = "knows the shares of the values"


def register(evidence: Evidence) -> Iterator[Finding]:
    if evidence.external is None:
        raise DoesNotApply("no register was given (--external).")
    linked, rows = _linked(evidence)
    yield rows_finding(linked, evidence.manifest.data.rows)
    for part in evidence.by_mechanism:
        found = values_finding(linked, _told_by_values(part, linked.people.size, rows))
        yield found.named(", ".join(filter(None, (part.mechanism.domain.name, found.about))))
    if evidence.by_mechanism:
        return
    tell = {"randomized": _told_by_values, "groups": _told_by_groups, "response": _told_by_response}[evidence.kind]
    yield values_finding(linked, tell(evidence, linked.people.size, rows))


def _linked(evidence: Evidence) -> tuple[Register, IntArray]:
    """Link the register that is given with the release; and return the combination of each row, or NOBODY."""
    shown = [column.name for column in evidence.manifest.columns]
    source, names = open_register(evidence.external, evidence.table, shown)
    people, rows = combined(evidence, source, names, evidence.in_release)
    if not people.size:
        raise UsageError("The register has no rows.", "Give one with a row for each person.")
    keys, numbers = np.unique(people, return_counts=True)
    place = np.minimum(np.searchsorted(keys, rows), keys.size - 1)
    rows = np.where(keys[place] == rows, place, NOBODY)
    texts = [np.array(evidence.labels(name)) for name in names]
    codes = np.unravel_index(keys, [of_column.size for of_column in texts])
    values = zip(*(of_column[code] for of_column, code in zip(texts, codes, strict=True)), strict=True)
    labels = tuple(named(names, combination) for combination in values)
    return Register(tuple(names), numbers, labels, np.bincount(rows[rows != NOBODY], minlength=keys.size)), rows


# --- what rows tell ---------------------------------------------------------------------------------------------------


def _told_by_values(evidence: Evidence, people: int, rows: IntArray) -> Told:
    mechanism, composition = evidence.mechanism, evidence.once(compositions)
    m = mechanism.domain.size
    _check_size(people, m, mechanism.published.size)
    sums, limits = np.zeros((people, m)), np.zeros(m)
    for number, (table, quotas) in enumerate(zip(mechanism.tables, composition.quotas, strict=True)):
        here = (evidence.sub_tables == number) & (rows != NOBODY)
        shares = quotas / max(1, quotas.sum())
        seen = cross_counts(rows[here], table.rows_of(evidence.published[here]), people, table.matrix.outputs)
        sums[:, table.codes] += _told_by_rows(table.matrix, shares, seen)
        own = limits_at(table.bounds, np.arange(shares.size, dtype=np.int32), shares)
        limits[table.codes] = np.maximum(limits[table.codes], np.where(shares > 0, own, 0.0))
    return Told(sums, np.where(limits > 0, limits, np.inf), True, mechanism.domain.labels)


def _told_by_rows(matrix: Matrix, shares: FloatArray, seen: IntArray) -> FloatArray:
    """Return the sums of the beliefs P[y, x] f_x / (P f)_y over rows: [person, value]; seen: [person, published]."""
    expected = matrix.apply(shares)
    weighed = np.divide(seen, expected, out=np.zeros(seen.shape), where=expected > 0)
    return np.asarray(matrix.apply_transposed(weighed) * shares)


def _told_by_groups(evidence: Evidence, people: int, rows: IntArray) -> Told:
    tables, size = evidence.group_tables, evidence.values.size
    _check_size(people, size)
    here = rows != NOBODY
    pairs, times = np.unique(rows[here] * tables.sizes.size + tables.rows[here], return_counts=True)
    person, group = np.divmod(pairs, tables.sizes.size)
    lines = tables.lines
    pair, line = lines.each(group)
    shares = lines.counts[line] / tables.sizes[lines.groups[line]] * times[pair]
    sums = np.bincount(person[pair] * size + lines.codes[line], shares, people * size)
    limits = np.full(size, float(evidence.group_claim.at_most))
    return Told(np.asarray(sums.reshape(-1, size), dtype=np.float64), limits, True, evidence.values.labels)


def _told_by_response(evidence: Evidence, people: int, rows: IntArray) -> Told:
    own, shown, mechanism = sensitive_values(evidence)
    labels = evidence.signatures(evidence.sensitive).labels if mechanism is None else mechanism.domain.labels
    size = len(labels)
    _check_size(people, size)
    here = rows != NOBODY
    seen = cross_counts(rows[here], shown[here], people, size)
    sums = seen.astype(np.float64)
    if mechanism is not None:
        sums = _told_by_rows(mechanism.matrix, np.bincount(own, minlength=size) / own.size, seen)
    limit = evidence.manifest.risk_claim.limit
    strictest = min([limit.limit, *(group.limit for group in limit.groups)], key=float)
    return Told(sums, np.full(size, float(strictest)), False, labels)


def _check_size(people: int, values: int, outputs: int = 0) -> None:
    if values > MOST_VALUES or people * max(values, outputs) > 20_000_000:
        raise NotMeasured("the register and the sensitive values have too many combinations.")


def rows_finding(linked: Register, published: int) -> Finding:
    rows, people = linked.candidates, linked.people
    _check_anybody_fits(linked, "fits a published row")
    risk = np.divide(1.0, rows, out=np.zeros(rows.size), where=rows > 0)
    none, one, few = (int(people[mask].sum()) for mask in (rows == 0, rows == 1, (rows > 0) & (rows < FEW)))
    total = int(people.sum())
    return Finding(
        attacker="register",
        about=_about("row", none, total),
        question="Which published row is a person's?",
        assumption=(
            f"Has a register of {total:,} people with {', '.join(linked.columns)}, and knows nobody else; takes one of "
            "the rows that are published with a person's values."
        ),
        measured="the chance to take the right row, if the person is in the release (worst), and its mean",
        worst=float(risk.max(initial=0)),
        mean=float(risk @ people / total),
        records=total,
        at_risk=one,
        baseline=1 / published,
        exposed=_exposed(linked, risk, lambda k: f"{linked.labels[k]}: {rows[k]:,} row(s)"),
        remark=(
            f"{one:,} people fit one row only, {few:,} ({share(few / total)}) fit fewer than {FEW}, {none:,} fit none. "
            "At risk are those who fit one."
        ),
    )


def values_finding(linked: Register, told: Told) -> Finding:
    _check_anybody_fits(linked, "fits a published row that shows a value")
    rows, lost = linked.candidates[:, None], int(linked.people[linked.candidates == 0].sum())
    beliefs = np.divide(told.sums, rows, out=np.zeros_like(told.sums), where=rows > 0)
    covered = np.isfinite(told.limits)
    used = beliefs / told.limits if covered.any() else beliefs
    likeliest = used.argmax(axis=1)
    risk = beliefs[np.arange(likeliest.size), likeliest]
    worst = largest_at(used.max(axis=1))
    bound = float(told.limits[likeliest[worst]]) if covered.any() else None
    above = used.max(axis=1) > 1 + ROUNDING if covered.any() else risk > 1
    return Finding(
        attacker="register",
        about=_about("value", lost, int(linked.people.sum())),
        question="Which value has a person of the register?",
        assumption=(
            f"Links by {', '.join(linked.columns)}; holds each row that fits to be as likely the person's as any "
            f"other, and {told.knows}."
        ),
        measured="the belief in the value that is nearest to its bound (worst), and its mean; exact on this release",
        worst=float(risk[worst]),
        mean=float(risk @ linked.people / linked.people.sum()),
        records=int(linked.people.sum()),
        at_risk=int(linked.people[above].sum()),
        **held_to(bound, told.promised),
        exposed=_exposed(linked, risk, lambda k: f"{linked.labels[k]}: {told.names[likeliest[k]]!r}"),
    )


def _check_anybody_fits(linked: Register, what: str) -> None:
    if not linked.candidates.any():
        raise NotMeasured(f"nobody of the register {what}: values must be written as in the table.")


def _about(what: str, lost: int, people: int) -> str:
    return f"{what}; {lost:,} of {people:,} fit no row" if lost else what


def _exposed(linked: Register, risk: FloatArray, told: Callable[[int], str]) -> tuple[Exposed, ...]:
    return tuple(each for each in most_exposed(risk, linked.people, told) if each.risk > 0)


ATTACKER = Attacker(
    name="register",
    knows="has a register of persons to link with",
    why_not_covered="The guarantee is about sensitive values, not about whose row is whose.",
    acceptable=(
        "Acceptable if it does no harm to find somebody's row, since the secret in it is protected. Not if being "
        "in the table is a secret, or if columns without noise tell too much."
    ),
    on=everywhere(register),
    place=15,
)

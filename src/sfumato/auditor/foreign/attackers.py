"""Who attacks a table of another tool: knows people's quasi-identifiers, and what labels mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sfumato.auditor.attackers.background import background_finding
from sfumato.auditor.attackers.register import Register, Told, rows_finding, values_finding
from sfumato.auditor.evidence import DoesNotApply
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, named
from sfumato.auditor.foreign.evidence import ForeignEvidence, plain
from sfumato.auditor.foreign.linked import Linked, combinations
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import MOST_SHARES, Knowledge, columns_of_prior, open_register
from sfumato.auditor.running import Attack
from sfumato.errors import UsageError
from sfumato.methods.robustness import Prior, read_prior
from sfumato.values.arrays import FloatArray, IntArray

SHOWN_LABELS = 3
"""Labels that are not understood, in words."""


def classes_finding(linked: Linked, promised: float | None) -> Finding:
    """Return the share of the commonest value in each equivalence class. promised: 1/l, if that is."""
    found = linked.classes
    _check_shown(linked)
    shares = found.counts.max(axis=1) / np.maximum(1, found.shown)
    baseline = float(found.counts.sum(axis=0).max() / found.shown.sum())
    order = np.lexsort((-found.sizes, -shares))[:SHOWN].tolist()
    likeliest = found.counts.argmax(axis=1)
    return Finding(
        attacker="classes",
        question="Which value has a person who is known to be in an equivalence class?",
        assumption="Knows the class of a person, and holds the published values to be true.",
        measured="the share of the commonest value in a class (worst), and its mean over the rows; exact",
        worst=float(shares.max()),
        mean=float(shares @ found.shown / found.shown.sum()),
        records=int(found.sizes.sum()),
        at_risk=int(found.sizes[shares > (baseline if promised is None else promised) * (1 + ROUNDING)].sum()),
        promised=promised,
        baseline=baseline,
        exposed=tuple(
            Exposed(f"{found.told(k)}: {linked.values[likeliest[k]]!r}", int(found.sizes[k]), float(shares[k]))
            for k in order
        ),
        remark=f"{len(found.codes):,} classes; the smallest has {int(found.sizes.min()):,} row(s).{_hidden(linked)}",
    )


def linking_finding(linked: Linked, promised: float | None) -> Finding:
    """Return how well the values of people are known from the rows that they may be. promised: 1/l, if that is."""
    people, beliefs = linked.people, linked.beliefs
    _check_shown(linked)
    fits = linked.candidates.sum(axis=1) > 0
    asked, total = (int(sizes.sum()) for sizes in (people.sizes[fits], people.sizes))
    _check_anybody_fits(asked, linked)
    worst = beliefs.max(axis=1)
    baseline = float(people.counts.sum(axis=0).max() / total)
    bound = baseline if promised is None else promised
    return Finding(
        attacker="linking",
        about=_not_all_fit(total - asked, total),
        question="What do the published rows that a person may be tell of the person's sensitive value?",
        assumption="Knows the quasi-identifiers of people and what labels mean; holds the published values to be true.",
        measured="the belief in a value (worst), and in a person's true value (mean), of those who fit a row",
        worst=float(worst.max()),
        mean=float((people.counts * beliefs).sum() / asked),
        records=total,
        at_risk=int(people.sizes[worst > bound].sum()),
        promised=promised,
        baseline=baseline,
        exposed=tuple(_exposed(linked, worst)),
        remark=_lost(total - asked, linked) + _hidden(linked),
    )


def corruption_finding(linked: Linked, known: IntArray, stated: float | None) -> Finding:
    """Return what one reaches who knows the values of some people, [people, values]. stated: 1/l, if that is."""
    if np.array_equal(known, linked.people.counts):
        raise UsageError("All members are known: nobody is left to ask for.", "Give some members.")
    rest, placed = linked.without(known)
    before, after = linking_finding(linked, stated), linking_finding(rest, stated)
    stays = int(known.sum()) - placed
    others = (
        f" {stays:,} known member(s) could not be taken out, as they fit several classes or none, or one without their "
        "value."
        if stays
        else ""
    )
    return replace(
        after,
        attacker="corruption",
        question="What do the rows that a person may be tell, once the values of other members are known?",
        assumption=f"Knows the values of {int(known.sum()):,} member(s), and takes them out of their classes. "
        f"{after.assumption}",
        promised=None,
        stated=stated,
        remark=f"With no member known the largest belief is {before.worst:.4g}.{others} {after.remark}".strip(),
    )


def reidentification_finding(linked: Linked) -> Finding:
    """Return how well the row of a person is known: one of the rows that the person may be."""
    people, rows = linked.people, linked.fitting
    lost, total = int(people.sizes[rows == 0].sum()), int(people.sizes.sum())
    _check_anybody_fits(total - lost, linked)
    risk = np.divide(1.0, rows, out=np.zeros(rows.size), where=rows > 0)
    return Finding(
        attacker="reidentification",
        about=_not_all_fit(lost, total),
        question="Which published row is a person's?",
        assumption="Knows the quasi-identifiers of people and what labels mean; takes one of the rows that fit.",
        measured="the chance to take the right row (worst, and mean of those who fit a row)",
        worst=float(risk.max()),
        mean=float((risk * people.sizes).sum() / (total - lost)),
        records=total,
        at_risk=int(people.sizes[rows == 1].sum()),
        baseline=1 / int(linked.classes.sizes.sum()),
        exposed=tuple(_exposed(linked, risk)),
        remark=f"{int(people.sizes[rows == 1].sum()):,} person(s) fit one row only. {_lost(lost, linked)}".strip(),
    )


def _check_shown(linked: Linked) -> None:
    if not linked.classes.shown.any():
        raise DoesNotApply("no published row shows a sensitive value.")


def _check_anybody_fits(fitting: int, linked: Linked) -> None:
    """Raise if nobody fits a published row: nothing was measured then."""
    if not fitting:
        raise DoesNotApply(f"nobody fits a published row.{_not_understood(linked)}")


def _not_all_fit(lost: int, people: int) -> str:
    """Return in words that some people fit no row: a verdict is not about them."""
    return f"{lost:,} of {people:,} fit no row" if lost else ""


def _lost(lost: int, linked: Linked) -> str:
    return f"{lost:,} person(s) fit no published row: nothing is said of them.{_not_understood(linked)}" if lost else ""


def _not_understood(linked: Linked) -> str:
    labels = list(linked.unfit())
    told = ", ".join(map(repr, labels[:SHOWN_LABELS]))
    return f" {len(labels):,} label(s) stand for nobody's value, such as {told}." if labels else ""


def _hidden(linked: Linked) -> str:
    rows = int(linked.classes.hidden.sum())
    return f" {rows:,} published row(s) show no value, and are held to have those of the others." if rows else ""


def _exposed(linked: Linked, risk: FloatArray) -> Iterator[Exposed]:
    order = np.lexsort((-linked.people.sizes, -risk))[:SHOWN]
    return (Exposed(linked.people.told(k), int(linked.people.sizes[k]), float(risk[k])) for k in order.tolist())


# --- on the evidence --------------------------------------------------------------------------------------------------


def classes(evidence: ForeignEvidence) -> Iterator[Finding]:
    """Who knows the equivalence class of a person."""
    yield classes_finding(evidence.linked, evidence.promised)


def linking(evidence: ForeignEvidence) -> Iterator[Finding]:
    """Who knows a person's quasi-identifiers, and looks at all rows that fit."""
    yield linking_finding(evidence.linked, evidence.promised)


def reidentification(evidence: ForeignEvidence) -> Iterator[Finding]:
    """Who looks for a person's row."""
    yield reidentification_finding(evidence.linked)


def corruption(evidence: ForeignEvidence) -> Iterator[Finding]:
    """Who knows the values of the members in a list."""
    if evidence.known is None:
        raise DoesNotApply("no list of known members was given.")
    people = evidence.linked.people
    known = np.zeros_like(people.counts)
    np.add.at(known, (people.rows[evidence.is_known], people.held[evidence.is_known]), 1)
    yield corruption_finding(evidence.linked, known, evidence.promised)


def register(evidence: ForeignEvidence) -> Iterator[Finding]:
    """Who has a register of people, and looks at all rows that they may be."""
    if evidence.external is None:
        raise DoesNotApply("no register was given.")
    source, names = open_register(evidence.external, evidence.table, evidence.source.names)
    rows, classes = plain("register", source, names), evidence.linked.classes
    people = combinations(rows, names, np.zeros(rows.num_rows, dtype=np.int64), 1)
    linked = Linked(people, classes, evidence.linked.values)
    labels = tuple(people.told(k) for k in range(len(people.codes)))
    listed = Register(people.names, people.sizes, labels, linked.fitting)
    limits = np.full(len(linked.values), np.inf if evidence.promised is None else evidence.promised)
    yield rows_finding(listed, int(classes.sizes.sum()))
    fit = linked.candidates
    told = Told(fit.astype(np.float64), limits, True, linked.values, "holds the published values to be true")
    yield values_finding(replace(listed, candidates=fit.sum(axis=1)), told)


def background(evidence: ForeignEvidence) -> Iterator[Finding]:
    """Who knows how values depend on quasi-identifiers, and the class of every person."""
    if evidence.ell is None:
        raise DoesNotApply("the policy asks for no l.")
    people = _People.of(evidence.linked)
    names = evidence.quasi_identifiers
    sets = [*((k,) for k in range(len(names))), *([tuple(range(len(names)))] if len(names) > 1 else [])]
    known = [people.knowledge(names, columns) for columns in sets]
    known += [people.read(names, path) for path in evidence.priors]
    for each in known:
        found = background_finding(people.tables, [each], evidence.ell, False, evidence.linked.values, people.values)
        yield found.named(each.name)


@dataclass(frozen=True, eq=False)
class _People:
    """The people of the true table one by one, in the classes that they fit."""

    linked: Linked
    combination: IntArray  # of each person
    values: IntArray
    tables: GroupTables

    @classmethod
    def of(cls, linked: Linked) -> _People:
        """Put each person into the one class that fits, if there is one and it publishes the values of its people."""
        combination, value = np.nonzero(linked.people.counts)
        times = linked.people.counts[combination, value]
        combination, values = np.repeat(combination, times), np.repeat(value, times)
        home = linked.homes[combination]
        sizes = linked.classes.sizes
        if (home < 0).any() or not np.array_equal(np.bincount(home, minlength=sizes.size), sizes):
            raise DoesNotApply("not every person fits exactly one class with as many rows as people.")
        held = np.zeros_like(linked.classes.counts)
        np.add.at(held, (home, values), 1)
        if not np.array_equal(held, linked.classes.counts):
            raise DoesNotApply("a class does not show the values of its people: some are withheld or were perturbed.")
        group, code = np.nonzero(linked.classes.counts)
        counts = linked.classes.counts[group, code]
        return cls(linked, combination, values, GroupTables(home, group, code, counts))

    def knowledge(self, names: Sequence[str], columns: Sequence[int]) -> Knowledge:
        """Return the table's own shares given some of the quasi-identifiers."""
        signature, labels = self._signed(columns)
        weights = self._counted(signature, len(labels))
        own = [names[k] for k in columns]
        told = [named(own, row) for row in labels]
        return Knowledge(", ".join(own), signature, Prior(weights, weights.sum(axis=1)), told)

    def read(self, names: Sequence[str], path: Path) -> Knowledge:
        """Return the prior of a file."""
        own = columns_of_prior(path, names)
        signature, labels = self._signed([list(names).index(name) for name in own])
        prior = read_prior(path, own, labels, self.linked.values, self._counted(signature, len(labels)))
        return Knowledge(f"{', '.join(own)} ({path.name})", signature, prior, [named(own, row) for row in labels])

    def _signed(self, columns: Sequence[int]) -> tuple[IntArray, list[tuple[str, ...]]]:
        people = self.linked.people
        _, first, number = np.unique(people.codes[:, list(columns)], axis=0, return_index=True, return_inverse=True)
        labels = [people.written(combination, columns) for combination in first.tolist()]
        return number.ravel()[self.combination].astype(np.int64), labels

    def _counted(self, signature: IntArray, number: int) -> IntArray:
        size = len(self.linked.values)
        if number * size > MOST_SHARES:
            raise DoesNotApply(f"{number:,} combinations are too many for a prior in memory.")
        return np.bincount(signature * size + self.values, minlength=number * size).reshape(-1, size).astype(np.int64)


ATTACKERS: dict[str, Attack[ForeignEvidence] | str] = {
    "classes": classes,
    "linking": linking,
    "reidentification": reidentification,
    "corruption": corruption,
    "register": register,
    "background": background,
}

"""Attackers on values that were randomized by one mechanism: uniform, fine-grain and small-domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sfumato.auditor import background as prior_attack
from sfumato.auditor.attackers.knowing import from_file, from_table, known_records
from sfumato.auditor.averaging import averaging_findings
from sfumato.auditor.background import Knowledge
from sfumato.auditor.composition import Counts, composition_finding
from sfumato.auditor.corruption import composition_corruption_finding, randomized_finding
from sfumato.auditor.evidence import UNMATCHED, Codes, DoesNotApply, Evidence, Ints
from sfumato.auditor.finding import Finding
from sfumato.auditor.frequencies import Cases, expected_cases, frequencies_finding, observed_cases
from sfumato.auditor.posterior import posterior_finding
from sfumato.auditor.sub_table_labels import label_finding
from sfumato.claims.guarantee import BOTH
from sfumato.methods import plan
from sfumato.methods.plan import Plan
from sfumato.publisher.table import profile
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import simulation

MOST_CASES = 30_000_000
"""Records that differ, times the values that can be published of them, that are held in memory."""
MOST_VALUES = 2_000
"""Values of a sub-table whose composition is attacked: some milliseconds each."""
KNOWN_SHARE = 0.1
"""Of the records, known by chance where no list is given."""
EXPECTED = "Rows were shuffled, so these are the expected figures over all that can be published of each record."
PAPER = "The paper promises this bound (FG Theorem 1); the guarantee of the release does not."


@dataclass(frozen=True, eq=False)
class Dealt:
    """How many records of each value each sub-table has, and how many rows it publishes of each."""

    quotas: tuple[Ints, ...]
    published: tuple[Ints, ...]

    @property
    def counts(self) -> list[Counts]:
        """Both, for the attacker who knows compositions."""
        pairs = zip(self.published, self.quotas, strict=True)
        return [Counts(tuple(shown.tolist()), tuple(own.tolist())) for shown, own in pairs]


def dealt(evidence: Evidence) -> Dealt:
    """Return the composition of the sub-tables.

    Rows in the table's order tell it; of shuffled ones, the plan does, which is made again and is always the same.
    """
    mechanism = evidence.mechanism
    shown = tuple(_counted(mechanism, evidence.published, evidence.sub_tables))
    if mechanism.label is None:
        return Dealt((_of_table(mechanism, evidence.true),), shown)
    if evidence.is_aligned:
        return Dealt(tuple(_counted(mechanism, evidence.true, evidence.sub_tables)), shown)
    made = plan(profile(evidence.table), **evidence.table.policy.plan_arguments())
    if not isinstance(made, Plan) or not _same(made.mechanism, mechanism):
        raise DoesNotApply("how many records of each value a sub-table has is not known: rows were shuffled.")
    return Dealt(made.quotas, shown)


def _of_table(mechanism: Mechanism, codes: Codes) -> Ints:
    return np.bincount(codes, minlength=mechanism.domain.size)[mechanism.tables[0].codes]


def _counted(mechanism: Mechanism, codes: Codes, labels: Codes) -> Iterator[Ints]:
    m = mechanism.domain.size
    numbers = np.bincount(labels.astype(np.int64) * m + codes, minlength=len(mechanism.tables) * m)
    for table, of_table in zip(mechanism.tables, numbers.reshape(-1, m), strict=True):
        if of_table.sum() != of_table[table.codes].sum():
            raise DoesNotApply("a sub-table has a value that is not one of its own.")
        yield of_table[table.codes]


def _same(one: Mechanism, other: Mechanism) -> bool:
    pairs = zip(one.tables, other.tables, strict=False)
    return len(one.tables) == len(other.tables) and all(
        np.array_equal(a.codes, b.codes) and np.array_equal(a.matrix.noise, b.matrix.noise) for a, b in pairs
    )


# --- the attackers ----------------------------------------------------------------------------------------------------


def posterior(evidence: Evidence) -> Iterator[Finding]:
    """The worst prior within the requirement, both directions."""
    kept, by_paper = (
        evidence.manifest.guarantee.directions,
        evidence.manifest.method == "fine-grain" and not evidence.is_proved,
    )
    for direction in BOTH:
        found = posterior_finding(
            evidence.mechanism, evidence.once(dealt).quotas, direction, direction in kept or by_paper
        )
        found = found.named(direction)
        yield found if direction in kept or not by_paper else found.with_remark(PAPER)


def label(evidence: Evidence) -> Iterator[Finding]:
    """Who sees the sub-table of a record."""
    if evidence.mechanism.label is None:
        raise DoesNotApply("there are no sub-tables.")
    yield label_finding(evidence.mechanism, evidence.once(dealt).quotas)


def frequencies(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the shares of the values."""
    cases = _cases(evidence, np.zeros(evidence.rows, dtype=np.int64))
    found = frequencies_finding(evidence.mechanism, cases.true, cases.published, cases.labels, weights=cases.weights)
    yield found if evidence.is_aligned else found.with_remark(EXPECTED)


def background(evidence: Evidence) -> Iterator[Finding]:
    """Who knows how values depend on quasi-identifiers: the table's shares, and the priors that were given."""
    values, labels = evidence.true.astype(np.int64), evidence.mechanism.domain.labels
    if not evidence.attribute_sets and not evidence.priors:
        raise DoesNotApply("no column is a quasi-identifier.")
    for names in evidence.attribute_sets:
        yield _background(evidence, from_table(evidence, names, values, labels))
    for path in evidence.priors:
        yield _background(evidence, from_file(evidence, path, values, labels))


def _background(evidence: Evidence, known: Knowledge) -> Finding:
    cases = _cases(evidence, known.signatures)
    found = prior_attack.randomized_finding(
        evidence.mechanism,
        cases.true,
        cases.published,
        replace(known, signatures=cases.groups),
        cases.labels,
        cases.weights,
    ).named(known.name)
    return found if evidence.is_aligned else found.with_remark(EXPECTED)


def _cases(evidence: Evidence, groups: Ints) -> Cases:
    """Return records that are alike, as they were published or as they can be."""
    if evidence.is_aligned:
        return observed_cases(evidence.true, evidence.published, evidence.sub_tables, groups, evidence.mechanism)
    m = evidence.mechanism.domain.size
    different = np.unique(groups * m + evidence.true).size * m
    if different > MOST_CASES:
        raise DoesNotApply(f"rows were shuffled, and {different:,} cases that can be published are too many.")
    return expected_cases(evidence.mechanism, evidence.true, groups, evidence.once(dealt).quotas)


def composition(evidence: Evidence) -> Iterator[Finding]:
    """Who knows how many records of each sub-table have each value."""
    _check_counts(evidence)
    yield composition_finding(evidence.mechanism, evidence.once(dealt).counts)


def _check_counts(evidence: Evidence) -> None:
    largest = max(table.codes.size for table in evidence.mechanism.tables)
    if largest > MOST_VALUES:
        raise DoesNotApply(f"a sub-table has {largest:,} values; up to {MOST_VALUES:,} are computed.")
    if evidence.one_of_each_person:
        raise DoesNotApply("one row of each person was drawn: the composition of the published rows is not known.")


def corruption(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the true values of some members."""
    mechanism = evidence.mechanism
    if mechanism.is_whole:
        yield randomized_finding(
            mechanism, evidence.once(dealt).quotas[0].tolist(), covered=not evidence.manifest.from_table
        )
        return
    _check_counts(evidence)
    known, by_chance = _known_members(evidence)
    found = composition_corruption_finding(mechanism, evidence.once(dealt).counts, known)
    chance = f"The known members are {KNOWN_SHARE:.0%} of the records, by chance."
    yield found.with_remark(chance) if by_chance else found


def _known_members(evidence: Evidence) -> tuple[list[list[tuple[int, int]]], bool]:
    """Return published and true value of the known members of each sub-table, and whether chance chose them."""
    given, row = known_records(evidence), evidence.matched
    chosen = simulation(evidence.seed).random(evidence.rows) < KNOWN_SHARE if given is None else given
    records = np.flatnonzero(chosen & (row != UNMATCHED))
    if not records.size:
        raise DoesNotApply("rows were shuffled, and none can be told to be a known member's.")
    labels, shown, own = (codes[at] for codes, at in (
        (evidence.sub_tables, row[records]), (evidence.published, row[records]), (evidence.true, records)
    ))  # fmt: skip
    known: list[list[tuple[int, int]]] = []
    for number, table in enumerate(evidence.mechanism.tables):
        here = labels == number
        pairs = (np.searchsorted(table.codes, codes[here]).tolist() for codes in (shown, own))
        known.append(list(zip(*pairs, strict=True)))
    return known, given is None


def averaging(evidence: Evidence) -> Iterator[Finding]:
    """Who sees two releases of the table."""
    keyed = evidence.table.policy.record_key is not None
    yield from averaging_findings(evidence.mechanism, evidence.once(dealt).quotas, keyed, seed=evidence.seed)

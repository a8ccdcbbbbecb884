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
from sfumato.auditor.evidence import UNMATCHED, Case, Codes, DoesNotApply, Ints
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


def dealt(case: Case) -> Dealt:
    """Return the composition of the sub-tables.

    Rows in the table's order tell it; of shuffled ones, the plan does, which is made again and is always the same.
    """
    mechanism = case.mechanism
    shown = tuple(_counted(mechanism, case.published, case.sub_tables))
    if mechanism.label is None:
        return Dealt((_of_table(mechanism, case.true),), shown)
    if case.is_aligned:
        return Dealt(tuple(_counted(mechanism, case.true, case.sub_tables)), shown)
    made = plan(profile(case.table), **case.table.policy.plan_arguments())
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


def posterior(case: Case) -> Iterator[Finding]:
    """The worst prior within the requirement, both directions."""
    kept, by_paper = case.manifest.guarantee.directions, case.manifest.method == "fine-grain" and not case.is_proved
    for direction in BOTH:
        found = posterior_finding(case.mechanism, case.once(dealt).quotas, direction, direction in kept or by_paper)
        found = found.named(direction)
        yield found if direction in kept or not by_paper else found.with_remark(PAPER)


def label(case: Case) -> Iterator[Finding]:
    """Who sees the sub-table of a record."""
    if case.mechanism.label is None:
        raise DoesNotApply("there are no sub-tables.")
    yield label_finding(case.mechanism, case.once(dealt).quotas)


def frequencies(case: Case) -> Iterator[Finding]:
    """Who knows the shares of the values."""
    cases = _cases(case, np.zeros(case.rows, dtype=np.int64))
    found = frequencies_finding(case.mechanism, cases.true, cases.published, cases.labels, weights=cases.weights)
    yield found if case.is_aligned else found.with_remark(EXPECTED)


def background(case: Case) -> Iterator[Finding]:
    """Who knows how values depend on quasi-identifiers: the table's shares, and the priors that were given."""
    values, labels = case.true.astype(np.int64), case.mechanism.domain.labels
    if not case.attribute_sets and not case.priors:
        raise DoesNotApply("no column is a quasi-identifier.")
    for names in case.attribute_sets:
        yield _background(case, from_table(case, names, values, labels))
    for path in case.priors:
        yield _background(case, from_file(case, path, values, labels))


def _background(case: Case, known: Knowledge) -> Finding:
    cases = _cases(case, known.signatures)
    found = prior_attack.randomized_finding(
        case.mechanism,
        cases.true,
        cases.published,
        replace(known, signatures=cases.groups),
        cases.labels,
        cases.weights,
    ).named(known.name)
    return found if case.is_aligned else found.with_remark(EXPECTED)


def _cases(case: Case, groups: Ints) -> Cases:
    """Return records that are alike, as they were published or as they can be."""
    if case.is_aligned:
        return observed_cases(case.true, case.published, case.sub_tables, groups, case.mechanism)
    m = case.mechanism.domain.size
    different = np.unique(groups * m + case.true).size * m
    if different > MOST_CASES:
        raise DoesNotApply(f"rows were shuffled, and {different:,} cases that can be published are too many.")
    return expected_cases(case.mechanism, case.true, groups, case.once(dealt).quotas)


def composition(case: Case) -> Iterator[Finding]:
    """Who knows how many records of each sub-table have each value."""
    _check_counts(case)
    yield composition_finding(case.mechanism, case.once(dealt).counts)


def _check_counts(case: Case) -> None:
    largest = max(table.codes.size for table in case.mechanism.tables)
    if largest > MOST_VALUES:
        raise DoesNotApply(f"a sub-table has {largest:,} values; up to {MOST_VALUES:,} are computed.")
    if case.one_of_each_person:
        raise DoesNotApply("one row of each person was drawn: the composition of the published rows is not known.")


def corruption(case: Case) -> Iterator[Finding]:
    """Who knows the true values of some members."""
    mechanism = case.mechanism
    if mechanism.is_whole:
        yield randomized_finding(mechanism, case.once(dealt).quotas[0].tolist(), covered=not case.manifest.from_table)
        return
    _check_counts(case)
    known, by_chance = _known_members(case)
    found = composition_corruption_finding(mechanism, case.once(dealt).counts, known)
    chance = f"The known members are {KNOWN_SHARE:.0%} of the records, by chance."
    yield found.with_remark(chance) if by_chance else found


def _known_members(case: Case) -> tuple[list[list[tuple[int, int]]], bool]:
    """Return published and true value of the known members of each sub-table, and whether chance chose them."""
    given, row = known_records(case), case.matched
    chosen = simulation(case.seed).random(case.rows) < KNOWN_SHARE if given is None else given
    records = np.flatnonzero(chosen & (row != UNMATCHED))
    if not records.size:
        raise DoesNotApply("rows were shuffled, and none can be told to be a known member's.")
    labels, shown, own = (codes[at] for codes, at in (
        (case.sub_tables, row[records]), (case.published, row[records]), (case.true, records)
    ))  # fmt: skip
    known: list[list[tuple[int, int]]] = []
    for number, table in enumerate(case.mechanism.tables):
        here = labels == number
        pairs = (np.searchsorted(table.codes, codes[here]).tolist() for codes in (shown, own))
        known.append(list(zip(*pairs, strict=True)))
    return known, given is None


def averaging(case: Case) -> Iterator[Finding]:
    """Who sees two releases of the table."""
    keyed = case.table.policy.record_key is not None
    yield from averaging_findings(case.mechanism, case.once(dealt).quotas, keyed, seed=case.seed)

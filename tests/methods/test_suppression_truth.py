"""What suppression may claim, by enumeration in fractions: every labelling, every draw, on all small tables.

The oracle is written from the definition in docs/methods/proofs/suppression.md and shares no code with the project.
Observers know the algorithm, see the published counts of the labelled values and, but for (d), how many records are
withheld.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations, product
from math import factorial, prod

import numpy as np
import pytest

from sfumato.auditor.attackers.eligibility import by_shape, by_uniform_prior, eligibility_finding
from sfumato.methods.suppression.suppress import PROVED, Variant, costs, suppress
from tests.methods.test_group_plan import planned
from tests.methods.test_suppression import outcomes, partitions, seeded

Counts = tuple[int, ...]
ALL = [(counts, ell) for m in (2, 3, 4, 5) for ell in (2, 3, 4) if m >= ell for n in range(m, 10)
       for counts in partitions(n, m)]  # fmt: skip
"""Every sorted table of up to 9 records and 5 values, for every l of 2, 3, 4 that it has values for."""


# --- the oracle -------------------------------------------------------------------------------------------------------


def too_frequent(counts: Counts, ell: int) -> int:
    """k."""
    return sum(ell * count > sum(counts) for count in counts)


def published_slots(counts: Counts, ell: int, moved: int, variant: Variant) -> list[int]:
    """The published counts by slot; `moved` is k, or max(k, 1) with `always`."""
    if moved == 0:
        return list(counts)
    if variant == "safe-d":
        return [min(count, counts[ell - 1]) for count in counts]
    taken = {
        "rotation": lambda i: i + moved if i <= ell - moved else ell,
        "spread": lambda i: i + moved - i * moved // ell,
    }[variant]
    slots = [counts[taken(i) - 1] if i <= ell else counts[i - 1] for i in range(1, len(counts) + 1)]
    cap = max(level for level in range(slots[0] + 1) if ell * level <= sum(min(slot, level) for slot in slots))
    return [min(slot, cap) for slot in slots]


def places(ell: int, moved: int, variant: Variant) -> list[tuple[int, ...]]:
    """Where S_1, S_2, ... of the moved values may sit: all of these are equally likely."""
    if variant == "safe-d" or moved == 0:
        return [tuple(range(moved))]
    if variant == "rotation":
        return list(permutations(range(ell), moved))
    rises = [
        [i - 1 for i in range(1, ell + 1) if (i * moved + u) // ell > ((i - 1) * moved + u) // ell] for u in range(ell)
    ]
    return [order for chosen in rises for order in permutations(chosen)]


@dataclass
class Beliefs:
    """The weight of an observation, and for each value that of it being ..."""

    values: int
    total: Fraction = Fraction(0)
    weights: dict[str, list[Fraction]] = field(init=False)

    def __post_init__(self) -> None:
        self.weights = {what: [Fraction(0)] * self.values for what in ("dominant", "violating", "both", "lost")}

    def of(self, what: str) -> list[Fraction]:
        return [weight / self.total for weight in self.weights[what]]


def believed(
    prior: dict[Counts, Fraction],
    ell: int,
    variant: Variant,
    always: bool = False,
    sees: Callable[[Counts, int], object] = lambda kept, withheld: (kept, withheld),
) -> dict[object, Beliefs]:
    """What is observed -> what is then believed. The prior is on sorted counts; given these all labellings are alike.

    A random labelling and a random order of equal counts together are a random order of the values, all m! alike.
    """
    found: dict[object, Beliefs] = {}
    for counts, weight in prior.items():
        m, k = len(counts), too_frequent(counts, ell)
        moved = max(k, 1) if always else k
        slots, seats = published_slots(counts, ell, moved, variant), places(ell, moved, variant)
        share = weight / (factorial(m) * len(seats))
        for order, seat in product(permutations(range(m)), seats):
            free = iter(slot for slot in range(m) if slot not in seat)
            slot_of = [*seat, *(next(free) for _ in range(m - len(seat)))]
            kept = [0] * m
            for rank, value in enumerate(order):
                kept[value] = slots[slot_of[rank]]
                assert 0 < kept[value] <= counts[rank]
            seen = found.setdefault(sees(tuple(kept), sum(counts) - sum(kept)), Beliefs(m))
            seen.total += share
            seen.weights["dominant"][order[0]] += share
            seen.weights["both"][order[0]] += share * (k > 0)
            for rank, value in enumerate(order):
                seen.weights["violating"][value] += share * (rank < k)
                seen.weights["lost"][value] += share * (counts[rank] - kept[value])
    return found


def known(counts: Counts) -> dict[Counts, Fraction]:
    """The sorted counts are known."""
    return {counts: Fraction(1)}


def labellings(counts: Counts) -> Fraction:
    """All labelled tables are alike."""
    return Fraction(factorial(len(counts)), prod(map(factorial, Counter(counts).values())))


def skewed(counts: Counts) -> Fraction:
    """Skewed tables are likelier."""
    return labellings(counts) * Fraction(3) ** (counts[0] - counts[-1])


def even(counts: Counts) -> Fraction:
    """Even tables are likelier."""
    return labellings(counts) / Fraction(5) ** (counts[0] - counts[-1])


PRIORS = (labellings, skewed, even)


def unknown(n: int, m: int, weigh: Callable[[Counts], Fraction]) -> dict[Counts, Fraction]:
    """Nothing is known of the counts but their sum."""
    return {counts: weigh(counts) for counts in partitions(n, m)}


# --- Theorem 15 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", PROVED)
def test_t2_nothing_is_withheld_if_and_only_if_no_value_is_too_frequent(variant: Variant) -> None:
    for counts, ell in ALL:
        for _, withheld in believed(known(counts), ell, variant):  # type: ignore[misc]
            assert (withheld == 0) == (too_frequent(counts, ell) == 0)


@pytest.mark.parametrize("variant", PROVED)
def test_t2_a_where_records_are_withheld(variant: Variant) -> None:
    """S_1 is believed by at most 1/l, a violating value by at most k/l."""
    for counts, ell in ALL:
        if k := too_frequent(counts, ell):
            for seen in believed(known(counts), ell, variant).values():
                assert max(seen.of("dominant")) <= Fraction(1, ell)
                assert max(seen.of("violating")) <= Fraction(k, ell)


@pytest.mark.parametrize("variant", PROVED)
def test_t2_b_where_nothing_is_withheld_the_most_frequent_value_is_read_off(variant: Variant) -> None:
    for counts, ell in [*ALL, ((4, 3, 3, 2), 3), ((4, 3, 3), 2)]:
        if not too_frequent(counts, ell):
            tied = counts.count(counts[0])
            for (kept, _), seen in believed(known(counts), ell, variant).items():  # type: ignore[misc]
                assert max(seen.of("dominant")) == Fraction(1, tied)
                assert Fraction(max(kept), sum(kept)) <= Fraction(1, ell)
    certain = believed(known((4, 3, 3)), 2, variant)[(4, 3, 3), 0]
    assert certain.of("dominant") == [1, 0, 0]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("variant", PROVED)
def test_t2_c_for_every_table_the_most_frequent_and_violating_value(
    variant: Variant, prior: Callable[[Counts], Fraction]
) -> None:
    """Pr(x is S_1 and has more than 1/l) <= 1/l, whoever knows only the size; being S_1 alone can be certain."""
    certain = False
    for n, m, ell in product(range(4, 10), (3, 4), (2, 3, 4)):
        for seen in believed(unknown(n, m, prior), ell, variant).values() if m >= ell else ():
            assert max(seen.of("both")) <= Fraction(1, ell)
            certain |= max(seen.of("dominant")) == 1
    assert certain


def test_t2_d_hiding_the_size_does_not_help() -> None:
    """n in 6..12, four values, l = 3: whoever sees (3, 2, 2, 2) alone believes by 3/7 that the first is S_1."""
    prior = {counts: labellings(counts) for n in range(6, 13) for counts in partitions(n, 4)}
    found = believed(prior, 3, "rotation", sees=lambda kept, withheld: kept)
    assert found[(3, 2, 2, 2)].of("dominant")[0] == Fraction(3, 7) > Fraction(1, 3)
    assert all(max(seen.of("both")) <= Fraction(1, 3) for seen in found.values())


@pytest.mark.parametrize("variant", PROVED)
def test_t2_always_bounds_the_belief_for_every_table(variant: Variant) -> None:
    """S_1 is believed by at most 1/l, a violating value by at most k/l. Nothing is withheld only if l values tie."""
    for counts, ell in ALL:
        for (_, withheld), seen in believed(known(counts), ell, variant, always=True).items():  # type: ignore[misc]
            assert max(seen.of("dominant")) <= Fraction(1, ell)
            assert max(seen.of("violating")) <= Fraction(too_frequent(counts, ell), ell)
            assert (withheld == 0) == (counts[0] == counts[ell - 1])


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("variant", PROVED)
def test_t2_always_whatever_is_known_of_the_size(variant: Variant, prior: Callable[[Counts], Fraction]) -> None:
    """Also for whoever does not know the table's size, nor how many records are withheld."""
    for m, ell in [(3, 2), (3, 3), (4, 3), (4, 4)]:
        tables = {counts: prior(counts) for n in range(m, 10) for counts in partitions(n, m)}
        for sees in (lambda kept, withheld: (kept, withheld), lambda kept, withheld: kept):
            for seen in believed(tables, ell, variant, always=True, sees=sees).values():
                assert max(seen.of("dominant")) <= Fraction(1, ell)


def test_t12_k_over_l_needs_k() -> None:
    """(3,1,1,1) and (2,2,1,1), l = 4, publish the same: a violating value is believed by .4, and k may be 1."""
    prior = {counts: labellings(counts) for counts in [(3, 1, 1, 1), (2, 2, 1, 1)]}
    assert [too_frequent(counts, 4) for counts in prior] == [1, 2]
    for variant in PROVED:
        (seen,) = believed(prior, 4, variant).values()
        expected = sum(seen.of("violating"))
        assert (max(seen.of("violating")), expected) == (Fraction(2, 5), Fraction(8, 5))
        assert max(seen.of("violating")) == expected / 4 > Fraction(1, 4)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("variant", PROVED)
def test_t12_the_expected_k_for_whoever_does_not_know_it(variant: Variant, prior: Callable[[Counts], Fraction]) -> None:
    for n, m, ell in product(range(4, 10), (3, 4), (2, 3, 4)):
        for seen in believed(unknown(n, m, prior), ell, variant).values() if m >= ell else ():
            assert max(seen.of("violating")) <= sum(seen.of("violating")) / ell


# --- the product against it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("variant", PROVED)
def test_t2_what_is_drawn_is_what_is_claimed(variant: Variant, always: bool) -> None:
    """Every draw of the program: the same published counts with the same probabilities."""
    for counts, ell in [(c, e) for c, e in ALL if sum(c) <= 8 and len(c) <= 4]:
        drawn: dict[Counts, Fraction] = defaultdict(Fraction)
        for labelled in set(permutations(counts)):
            for chance, found in outcomes(
                lambda draw, t=labelled, e=ell: suppress(t, e, variant, draw=draw, always=always)
            ):
                drawn[tuple(found.kept.tolist())] += chance / int(labellings(counts))
        slow = believed(known(counts), ell, variant, always, sees=lambda kept, withheld: kept)
        assert drawn == {kept: seen.total for kept, seen in slow.items()}


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("variant", PROVED)
def test_t2_beliefs_of_the_publisher_and_of_the_auditor(variant: Variant, always: bool) -> None:
    """The sorted counts known: `suppress`, `by_shape` and the oracle agree on all small tables, and on the bounds."""
    for number, (counts, ell) in enumerate(ALL):
        slow = believed(known(counts), ell, variant, always)
        made = suppress(counts, ell, variant, draw=seeded(number), always=always)
        seen = slow[tuple(made.kept.tolist()), made.withheld]
        suspicion = by_shape(made.counts, made.kept, ell, variant, always)
        assert suspicion.beliefs == made.beliefs
        for value, kept in enumerate(made.kept.tolist()):
            belief = suspicion.of(value)
            assert belief.dominant == seen.of("dominant")[value]
            assert belief.violating == seen.of("violating")[value]
            assert belief.missing * made.withheld == seen.of("lost")[value]
            assert belief.member == (kept + seen.of("lost")[value]) / sum(counts)
        assert made.violating_bound == Fraction(too_frequent(counts, ell), ell)
        hidden = always or too_frequent(counts, ell)
        assert made.dominant_bound == (Fraction(1, ell) if hidden else None)
        finding = eligibility_finding(suspicion, "dominant")
        assert finding.worst == float(max(seen.of("dominant")))
        assert finding.verdict == ("within the bound" if hidden else "not covered by the guarantee")


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("variant", PROVED)
def test_t12_beliefs_of_whoever_knows_no_counts(variant: Variant, always: bool) -> None:
    """The uniform prior of the audit is the oracle's; its bound on violating values is the expected k over l."""
    for n, m, ell in [(6, 4, 4), (7, 3, 2), (8, 4, 3), (8, 4, 4), (9, 3, 3)]:
        for (kept, _), seen in believed(unknown(n, m, labellings), ell, variant, always).items():  # type: ignore[misc]
            found = by_uniform_prior(np.array(kept), n, ell, variant, always)
            for value in range(m):
                assert found.of(value).dominant == seen.of("dominant")[value]
                assert found.of(value).violating == seen.of("violating")[value]
            assert found.number_violating == sum(seen.of("violating"))


@pytest.mark.parametrize("variant", PROVED)
def test_t2_always_moves_as_one_violating_value_would(variant: Variant) -> None:
    """Where a value violates anyway `always` changes nothing; where none does it withholds F_1 - F_l at least."""
    for number, (counts, ell) in enumerate(ALL):
        plain, hidden = (suppress(counts, ell, variant, draw=seeded(number), always=always) for always in (False, True))
        if plain.violating:
            assert plain.kept.tolist() == hidden.kept.tolist()
            assert costs(counts, ell) == costs(counts, ell, always=True)
        else:
            assert plain.withheld == 0
            assert hidden.withheld >= counts[0] - counts[ell - 1]
        assert costs(counts, ell, always=True)[variant] == hidden.withheld


def test_t2_what_always_costs() -> None:
    """F_1 - F_l, and more where the cap binds."""
    examples: list[tuple[Counts, int, int]] = [
        ((4, 3, 3), 2, 1),
        ((3, 3, 1, 1, 1), 3, 3),
        ((100, 90, 80, 70, 60), 3, 20),
    ]
    for counts, ell, withheld in examples:
        assert too_frequent(counts, ell) == 0
        assert costs(counts, ell, always=True)["rotation"] == withheld
        assert sum(counts) - sum(published_slots(counts, ell, 1, "rotation")) == withheld


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("variant", PROVED)
def test_t2_figures_of_the_plan(variant: Variant, always: bool) -> None:
    """What a plan says of each published count is what the oracle believes of a value with it."""
    for counts, ell in ALL[::3]:
        named = {f"v{value}": count for value, count in enumerate(counts)}
        made = planned(named, "suppression", ell, variant=variant, always=always)
        figures, kept = made.figures.suppression, tuple(made.figures.published.tolist())
        assert figures is not None
        seen = believed(known(counts), ell, variant, always)[kept, int(made.figures.withheld.sum())]
        told = {belief.published: belief for belief in figures.beliefs}
        for value, count in enumerate(kept):
            for what in ("dominant", "violating"):
                stated = getattr(told[count], what) if count in told else 0
                assert stated == float(seen.of(what)[value])
        bound = figures.dominant_bound
        assert bound == (f"1/{ell}" if always or too_frequent(counts, ell) else None)
        assert bound is None or max(seen.of("dominant")) <= Fraction(bound)

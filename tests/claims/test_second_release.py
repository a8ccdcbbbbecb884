"""Two releases of the same people: factors against enumeration in fractions, and the sentences that tell them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.claims.claim import BOTH, UPWARD, rounded_up
from sfumato.claims.odds import assumed, equal_twice, own_factor, with_fresh_noise
from sfumato.methods import plan
from sfumato.methods.fine_grain import FineGrain
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.methods.subset.method import deck_of
from sfumato.publisher.table import profile, scan
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import FineGrainPrivacy, ValueRequirement
from tests.conftest import exact_weights, make_policy
from tests.engines.tools import patients, planned, released

Matrix = list[list[Fraction]]
Pair = tuple[int, int]
Kernel = Callable[[Pair, Pair], Fraction]


def fractions(matrix: PerturbationMatrix) -> Matrix:
    return [[Fraction(weight, WORDS) for weight in row] for row in exact_weights(matrix)]


def uniform(gamma: int, m: int) -> Matrix:
    """P[y][x], not rounded to integers."""
    q = Fraction(1, m - 1 + gamma)
    return [[gamma * q if x == y else q for x in range(m)] for y in range(m)]


# --- the oracle: all that can be published of all pairs of values -----------------------------------------------------


def fresh(p: Matrix, r: Matrix) -> Kernel:
    """Two independent draws."""
    return lambda y, x: p[y[0]][x[0]] * r[y[1]][x[1]]


def by_value(p: Matrix) -> Kernel:
    """A value that stays is drawn once; one that changes is drawn anew."""

    def chance(y: Pair, x: Pair) -> Fraction:
        if x[0] == x[1]:
            return p[y[0]][x[0]] if y[0] == y[1] else Fraction(0)
        return p[y[0]][x[0]] * p[y[1]][x[1]]

    return chance


def odds_factor(
    kernel: Kernel, seen: Iterable[Pair], pairs: Sequence[Pair], holds: Callable[[Pair], bool]
) -> Fraction | None:
    """Return the most by which what is seen raises the odds of a statement, over all priors; None: without end."""
    worst: Fraction | None = Fraction(0)
    for y in seen:
        above = max((kernel(y, x) for x in pairs if holds(x)), default=Fraction(0))
        below = min(kernel(y, x) for x in pairs if not holds(x))
        if above and not below:
            return None
        worst = max(worst or Fraction(0), above / below if above else Fraction(0))
    return worst


def all_pairs(m: int) -> list[Pair]:
    return list(itertools.product(range(m), repeat=2))


def equal_pairs(m: int) -> list[Pair]:
    return [(y, y) for y in range(m)]


# --- T3: the break of the record key ----------------------------------------------------------------------------------


def test_t3_chronic_against_acute() -> None:
    """Twelve values, gamma 3: diabetes (0) never changes; one of eleven others, another one each time, is the rest."""
    kernel, prior = by_value(uniform(3, 12)), Fraction(1, 10)
    chronic, acute = (0, 0), [(a, b) for a, b in itertools.product(range(1, 12), repeat=2) if a != b]

    def rise(y: Pair) -> Fraction:
        return kernel(y, chronic) / (sum(kernel(y, x) for x in acute) / len(acute))

    def belief(odds: Fraction) -> Fraction:
        return odds * prior / (odds * prior + 1 - prior)

    assert (rise((0, 0)), belief(rise((0, 0)))) == (42, Fraction(14, 17))
    assert (rise((1, 1)), round(float(belief(rise((1, 1)))), 3)) == (Fraction(154, 15), 0.533)
    assert min(kernel((y, y), chronic) / kernel((y, y), x) for y in range(12) for x in acute) == Fraction(14, 3)
    different = [y for y in all_pairs(12) if y[0] != y[1]]
    assert {sum(kernel(y, x) for y in different) for x in acute} == {Fraction(45, 49)}
    assert all(kernel(y, chronic) == 0 for y in different)  # a change that shows excludes diabetes with certainty
    assert odds_factor(fresh(uniform(3, 12), uniform(3, 12)), [(0, 0)], [chronic, *acute], chronic.__eq__) == 9


@pytest.mark.parametrize(("gamma", "m"), [(3, 12), (2, 3), (3, 4), (9, 5)])
def test_t3_uniform_twice_is_gamma_times_m_minus_one_plus_gamma(gamma: int, m: int) -> None:
    kernel = by_value(uniform(gamma, m))
    for when in (0, 1):
        assert odds_factor(kernel, equal_pairs(m), all_pairs(m), lambda x, w=when: x[w] == 0) == gamma * (m - 1 + gamma)
    rounded = equal_twice(uniform_matrix(Fraction(gamma), m))
    assert rounded is not None
    assert gamma * (m - 1 + gamma) * (1 - Fraction(1, 2**50)) < rounded <= gamma * (m - 1 + gamma)
    different = [y for y in all_pairs(m) if y[0] != y[1]]
    assert odds_factor(kernel, different, all_pairs(m), lambda x: x[0] == 0) is None  # others may never change


def test_t3_two_values() -> None:
    """A value that changes can only become the other one: m - 1 + gamma, not gamma (m - 1 + gamma)."""
    assert odds_factor(by_value(uniform(3, 2)), equal_pairs(2), all_pairs(2), lambda x: x[0] == 0) == 4
    assert round(float(equal_twice(uniform_matrix(Fraction(3), 2)) or 0), 9) == 4


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
@example([1.0, 1.0, 1.0])
@example([0.0, 0.0])
@example([0.9, 0.9, 0.1, 0.9, 0.2])
def test_t3_equal_twice_is_the_largest_factor_of_any_statement_on_one_value(retention: list[float]) -> None:
    """Fine-grain, on the integers: over all values i, "x_1 = i" and "x_2 = i", and every predicate on x_1."""
    matrix = PerturbationMatrix.from_retention(retention)
    m, kernel = matrix.size, by_value(fractions(matrix))
    if m == 1:
        assert equal_twice(matrix) == 1
        return
    for i in range(m):
        alone = odds_factor(kernel, equal_pairs(m), all_pairs(m), lambda x, i=i: x[0] == i)
        assert alone == matrix.equal_twice(i)
    single = [{i} for i in range(m)]
    predicates = [set(s) for k in range(1, m) for s in itertools.combinations(range(m), k)]
    for when, among in ((0, single), (1, single), (0, predicates)):
        found = [odds_factor(kernel, equal_pairs(m), all_pairs(m), lambda x, w=when, s=s: x[w] in s) for s in among]
        if equal_twice(matrix) is None:
            assert None in found
        else:
            assert max(f for f in found if f is not None) == equal_twice(matrix)
            assert None not in found


def subsets(gamma: int, m: int, k: int) -> Matrix:
    """P[card][x] of all sets of k values, not rounded to integers."""
    cards = list(itertools.combinations(range(m), k))
    off = Fraction(m, len(cards) * (m - k + gamma * k))
    return [[gamma * off if x in card else off for x in range(m)] for card in cards]


@pytest.mark.parametrize(("gamma", "m", "k"), [(3, 12, 3), (3, 6, 2), (2, 5, 2), (9, 4, 1)])
def test_t3_sets_twice_are_gamma_times_the_cards(gamma: int, m: int, k: int) -> None:
    """A value that stays is on the card, two others are off it: gamma K (m - k + gamma k) / m; uniform with k = 1."""
    p = subsets(gamma, m, k)
    assert all(sum(row[x] for row in p) == 1 for x in range(m))
    told = Fraction(gamma * len(p) * (m - k + gamma * k), m)
    for when in (0, 1):
        found = odds_factor(by_value(p), equal_pairs(len(p)), all_pairs(m), lambda x, w=when: x[w] == 0)
        assert found == told
    different = [y for y in all_pairs(len(p)) if y[0] != y[1]]
    assert odds_factor(by_value(p), different[:50], all_pairs(m), lambda x: x[0] == 0) is None
    assert k > 1 or told == gamma * (m - 1 + gamma)


@pytest.mark.parametrize(("gamma", "m", "k"), [(3, 12, 3), (3, 6, 2), (2, 5, 2)])
def test_t3_the_factor_of_a_deck_is_that_of_its_cards(gamma: int, m: int, k: int) -> None:
    """On the integers; and with the number of cards that the deck has, the formula of the documentation."""
    deck = deck_of(m, k, Fraction(gamma))
    exact = [[Fraction(deck.weight(card, x), WORDS) for x in range(m)] for card in range(deck.outputs)]
    found = odds_factor(by_value(exact), equal_pairs(deck.outputs), all_pairs(m), lambda x: x[0] == 0)
    assert found == equal_twice(deck)
    assert float(found or 0) == pytest.approx(gamma * deck.outputs * (m - k + gamma * k) / m)


def test_t3_a_plan_of_sets_prints_the_factor_of_the_page(tmp_path: Path) -> None:
    """12 values, gamma 3: 220 cards of 3 values, and 990. The same sets come back with the record key."""
    names = [f"d{k}" for k in range(12)]
    rows = pa.table({"name": [f"p{k}" for k in range(240)], "disease": names * 20})
    roles = {"name": "identifier", "disease": f"sensitive; domain = {names}"}
    policy = make_policy(roles, "gamma = 3", "subset", extra=KEYED)
    assert any("by up to the factor 990," in note for note in planned(scan(rows, policy)).notes)
    key = SecretKey(bytes(range(32)), kept=True)
    first, second = (released(rows, policy, folder=tmp_path / n, key=key).to_arrow().to_pylist() for n in "ab")
    assert sorted(map(str, first)) == sorted(map(str, second))


@pytest.mark.parametrize(("low", "high"), [("9/10", "99/100"), ("1/2", "3/4"), ("0", "1/2"), ("2/5", "2/5")])
@pytest.mark.parametrize(("gamma", "m"), [(3, 4), (2, 3), (5, 6)])
def test_t3_mild_differences_in_how_long_values_last_suffice(gamma: int, m: int, low: str, high: str) -> None:
    """Pr(unchanged | x_1) between s- and s+: the exact factors of equal and of different published values.

    Given x_1 = a, which stays with probability s, the chance of what is published is linear in the prior on what it
    becomes: at worst it becomes one value b. (.9, .99 and gamma 3: 90.)
    """
    least, most = Fraction(low), Fraction(high)
    p = uniform(gamma, m)
    q, d = p[0][1], p[0][0]

    def chance(y: Pair, a: int, stays: Fraction, b: int) -> Fraction:
        kernel = by_value(p)
        return stays * kernel(y, (a, a)) + (1 - stays) * kernel(y, (a, b))

    def factor(seen: Iterable[Pair]) -> Fraction:
        worst = Fraction(0)
        for y in seen:
            all_of = {a: [chance(y, a, s, b) for s in (least, most) for b in range(m) if b != a] for a in range(m)}
            worst = max(worst, *(max(all_of[a]) / min(all_of[k]) for a in range(m) for k in range(m) if k != a))
        return worst

    stay = least + (1 - least) * q
    equal = max(gamma * (most + (1 - most) * q) / stay, (most + (1 - most) * d) / stay)
    assert factor(equal_pairs(m)) == equal
    assert factor(y for y in all_pairs(m) if y[0] != y[1]) == gamma**2 * (1 - least) / (1 - most)


def test_t3_ninety() -> None:
    assert 3**2 * (1 - Fraction("9/10")) / (1 - Fraction("99/100")) == 90


# --- T4: fresh noise, and values that may change ----------------------------------------------------------------------


def example_1() -> tuple[PerturbationMatrix, int]:
    """The proved matrix of FG Example 1, and SARS."""
    requirement = FineGrainPrivacy(
        [
            ValueRequirement("SARS", "1/10", "1/7"),
            *(ValueRequirement(v, "1/10", "1/4") for v in ("HIV", "H1N1", "cancer")),
        ]
    )
    names = ["SARS", "HIV", "H1N1", "cancer"]
    policy = make_policy({"disease": f"sensitive; domain = {names}"}, requirement="gamma = 2")
    counted = profile(scan(pa.table({"disease": names}), policy))
    made = plan(counted, FineGrain(objective="records"), requirement)
    return made.figures.matrix, made.figures.domain.values.index("SARS")  # type: ignore[union-attr]


def test_t4_fine_grain_example_1() -> None:
    """SARS downward, two releases: 9/4 if the value is known to stay, 27/10 if it may change. It was told as 9/4."""
    p = [[Fraction(1, 4), *[Fraction(5, 24)] * 3] for _ in range(4)]
    for y in (1, 2, 3):
        p[y][y] = Fraction(9, 24)
    staying = [(a, a) for a in range(4)]

    def lower(pairs: Sequence[Pair]) -> Fraction | None:
        return odds_factor(fresh(p, p), all_pairs(4), pairs, lambda x: x[0] != 0)  # of "not SARS", upward

    assert (lower(staying), lower(all_pairs(4))) == (Fraction(9, 4), Fraction(27, 10))
    matrix, sars = example_1()
    once = own_factor(matrix, sars, BOTH)
    assert once is not None
    twice = with_fresh_noise(once, matrix)
    assert twice is not None
    assert (float(once), float(twice)) == (pytest.approx(1.5), pytest.approx(2.7))
    assert rounded_up(twice) == "2.7"


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_t4_own_factor_times_the_largest_ratio_is_exact(data: st.DataObject) -> None:
    """Against all pairs of values and of published ones, under two matrices."""
    m = data.draw(st.integers(2, 4))
    first, second = (
        PerturbationMatrix.from_retention(data.draw(st.lists(st.floats(0, 0.999), min_size=m, max_size=m)))
        for _ in range(2)
    )
    kernel, pairs = fresh(fractions(first), fractions(second)), all_pairs(m)
    for i in range(m):
        up = odds_factor(kernel, pairs, pairs, lambda x, i=i: x[0] == i)
        down = odds_factor(kernel, pairs, pairs, lambda x, i=i: x[0] != i)
        assert up == with_fresh_noise(own_factor(first, i, UPWARD), second)
        assert max(up or 0, down or 0) == with_fresh_noise(own_factor(first, i, BOTH), second)


# --- sentences --------------------------------------------------------------------------------------------------------

DOMAIN = "domain = ['asthma', 'flu', 'gout', 'mumps']"
KEYED = 'record_key = "name"\nseries = "patients"'
ASSUMED = (
    "ASSUMED, NOT PROVED: that how long a value lasts says nothing about it. Where some values last "
    "longer, equal published values in two releases raise their odds by up to the factor 28, and different ones "
    "exclude values that never change."
)


def keyed_policy(method: str = "uniform", options: str = "") -> object:
    roles = {"name": "identifier", "age": "other", "sex": "other", "disease": f"sensitive; {DOMAIN}"}
    return make_policy(roles, extra=KEYED, method=method, options=options)


def test_t3_plan_manifest_and_readme_say_what_is_assumed(tmp_path: Path) -> None:
    """gamma 4 and four values: 4 (3 + 4) = 28."""
    opened = scan(patients(), keyed_policy())  # type: ignore[arg-type]
    made = planned(opened)
    assert ASSUMED in made.notes
    assert ASSUMED in made.explain()
    release = released(patients(), keyed_policy(), folder=tmp_path / "r", key=SecretKey(bytes(32), kept=True))  # type: ignore[arg-type]
    assert ASSUMED in release.manifest.second_release
    assert ASSUMED in (tmp_path / "r" / "README.md").read_text(encoding="utf-8").replace("\n  ", " ")
    assert "nothing new" not in release.manifest.second_release


def test_t3_without_a_key_nothing_is_assumed() -> None:
    assert not any("ASSUMED" in note for note in planned(scan(patients(), make_policy(
        {"name": "identifier", "age": "other", "sex": "other", "disease": "sensitive"}
    ))).notes)  # fmt: skip


def test_t4_the_manifest_tells_both_factors(tmp_path: Path) -> None:
    release = released(patients(), folder=tmp_path / "r")
    assert "by up to the factor 4 in one release, and by up to the factor 16 in two" in release.manifest.second_release
    assert "squared" not in release.manifest.second_release


def test_a_matrix_that_keeps_all_has_no_end() -> None:
    from sfumato.values.attributes import Domain, SensitiveDomain
    from sfumato.values.mechanism import Mechanism
    from sfumato.values.requirement import NO_BOUND

    domain = SensitiveDomain((Domain("d", ("a", "b", "c")),))
    kept = Mechanism.single(domain, PerturbationMatrix.from_retention([1, 1, 1]), (NO_BOUND,) * 3)
    assert "by up to any factor" in assumed([kept])
    assert "of one column" in assumed([kept, kept])

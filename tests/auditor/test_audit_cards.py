"""Releases of cards, sets of values: what an audit believes of them, and which faults it finds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.auditor.attackers.averaging import recovery, sampled_recovery
from sfumato.auditor.attackers.draws import Holding
from sfumato.auditor.attackers.frequencies import frequencies_finding
from sfumato.auditor.attackers.order import Estimator
from sfumato.auditor.beliefs import expected_cases, observed_cases, record_beliefs
from sfumato.auditor.first_screen import first_screen
from sfumato.auditor.knowledge import Knowledge
from sfumato.auditor.report.page import html_of
from sfumato.auditor.report.page_counts import beliefs
from sfumato.auditor.report.reporting import private_page, public_page
from sfumato.methods.robustness.prior import count_prior
from sfumato.methods.subset.deck import make_deck
from sfumato.publisher.policy import Policy
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.deck import DeckMatrix
from sfumato.values.matrix.retention import WORDS
from sfumato.values.mechanism import BETWEEN, Bound, Form, Mechanism
from tests.auditor.test_audit_faults import above
from tests.conftest import make_policy
from tests.engines.tools import ROLES, released, resealed

FORMS: tuple[Form, ...] = ("set", "card")
VALUES = tuple(f"disease {k:02}" for k in range(13))
GAMMA = 4
BOUNDS = (Bound(Fraction(3)),) * 4

SMALL = Mechanism.single(
    SensitiveDomain((Domain("disease", ("asthma", "flu", "gout", "mumps")),)),
    DeckMatrix(4, np.array([[0, 1]], dtype=np.int32), 3 * WORDS // 8, WORDS // 8),
    BOUNDS,
    "set",
)
"""Cards asthma|flu, flu|gout, gout|mumps and mumps|asthma: each 3/8 of the time with the value, else 1/8."""


def codes(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(numbers, dtype=np.int32)


# --- beliefs ----------------------------------------------------------------------------------------------------------


def test_worked_example_of_four_cards() -> None:
    """Of eight patients 4, 2, 1 and 1 have the diseases. By hand, a card y tells of x

    asthma|flu     weights 3*4, 3*2, 1, 1 of 20        gout|mumps     weights 4, 2, 3, 3 of 12
    """
    true, published = codes(0, 0, 0, 0, 1, 1, 2, 3), codes(0, 0, 2, 0, 0, 2, 2, 0)
    found = record_beliefs(SMALL, true, published)
    by_hand = [(12, 20), (12, 20), (4, 12), (12, 20), (6, 20), (2, 12), (3, 12), (1, 20)]
    assert found.beliefs.tolist() == pytest.approx([float(Fraction(*belief)) for belief in by_hand])
    assert found.priors.tolist() == pytest.approx([1 / 2] * 4 + [1 / 4] * 2 + [1 / 8] * 2)
    assert found.limits[0] == pytest.approx(3 / 4)
    assert not found.above.any()
    told = frequencies_finding(SMALL, true, published)
    assert (told.who, told.worst, told.at_risk) == ("'asthma', published 'asthma|flu'", pytest.approx(3 / 5), 0)


def decks() -> list[Mechanism]:
    found = []
    for m, k, gamma in ((5, 2, Fraction(3)), (7, 2, Fraction(5, 2)), (9, 4, Fraction(4, 3)), (6, 1, Fraction(8))):
        domain = SensitiveDomain((Domain("disease", tuple(f"v{x}" for x in range(m))),))
        matrix = DeckMatrix.within(m, make_deck(m, k).blocks.astype(np.int32), gamma)
        found.append(Mechanism.single(domain, matrix, (Bound(gamma),) * m, "card"))
    return found


@pytest.mark.parametrize("mechanism", decks(), ids=lambda mechanism: f"{mechanism.domain.size} values")
def test_beliefs_are_those_of_a_slow_calculation(mechanism: Mechanism) -> None:
    """P[card, x] f_x / sum, in fractions of the words that are drawn with."""
    m, matrix = mechanism.domain.size, mechanism.matrix
    rng = np.random.default_rng(m)
    true = rng.integers(0, m, 60).astype(np.int32)
    true[:m] = np.arange(m)
    groups = rng.integers(0, 3, true.size)
    published = matrix.sample(true, rng.integers(0, 2**64, true.size, dtype=np.uint64, endpoint=False))

    def belief(y: int, x: int, members: np.ndarray) -> float:
        weights = [matrix.weight(y, k) * int((members == k).sum()) for k in range(m)]
        return float(Fraction(weights[x], sum(weights)))

    pairs = list(zip(published.tolist(), true.tolist(), strict=True))
    assert record_beliefs(mechanism, true, published).beliefs == pytest.approx([belief(y, x, true) for y, x in pairs])
    known = Knowledge("sex", groups, count_prior(groups, true.astype(np.int64)))
    by_group = [belief(y, x, true[groups == g]) for (y, x), g in zip(pairs, groups, strict=True)]
    assert record_beliefs(mechanism, true, published, known=known).beliefs == pytest.approx(by_group)

    labels = np.zeros(true.size, dtype=np.int32)
    cases = observed_cases(true, published, labels, groups, mechanism)
    lines = zip(cases.groups, cases.true, cases.published, cases.weights, strict=True)
    counted = {(int(g), int(x), int(y)): int(n) for g, x, y, n in lines}
    assert counted == {
        (g, x, y): sum((h, k, z) == (g, x, y) for h, (z, k) in zip(groups.tolist(), pairs, strict=True))
        for g, (y, x) in zip(groups.tolist(), pairs, strict=True)
    }

    expected = expected_cases(mechanism, true, groups, [np.bincount(true, minlength=m)])
    assert expected.weights.sum() == pytest.approx(true.size)
    for g, x, y, n in zip(expected.groups, expected.true, expected.published, expected.weights, strict=True):
        assert n == pytest.approx(int(((groups == g) & (true == x)).sum()) * matrix.weight(int(y), int(x)) / WORDS)


@pytest.mark.parametrize("mechanism", decks(), ids=lambda mechanism: f"{mechanism.domain.size} values")
def test_figures_of_all_that_can_be_published(mechanism: Mechanism) -> None:
    """How often the likeliest value is right, after one card and after two; and which values cards hold."""
    m, outputs, matrix = mechanism.domain.size, mechanism.matrix.outputs, mechanism.matrix
    counts = np.arange(1, m + 1)
    chance = [[Fraction(matrix.weight(y, x), WORDS) for x in range(m)] for y in range(outputs)]
    joint = [[chance[y][x] * Fraction(int(counts[x]), int(counts.sum())) for x in range(m)] for y in range(outputs)]
    assert recovery(mechanism, [counts], 1).mean == pytest.approx(float(sum(map(max, joint))))
    twice = sum(max(first[x] * second[x] for x in range(m)) for first in joint for second in chance)
    assert recovery(mechanism, [counts], 2).mean == pytest.approx(float(twice))

    drawn = sampled_recovery(matrix, counts / counts.sum(), 2, np.full(m, np.inf), seed=1)
    assert drawn.interval is not None
    assert drawn.interval[0] - 0.01 < float(twice) < drawn.interval[1] + 0.01

    holding = Holding.of(matrix)
    assert holding is not None
    for value in range(m):
        cards = [y for y in range(outputs) if value in matrix.card(y)]
        assert np.flatnonzero(holding.cards[value]).tolist() == cards
        held = [float(sum(chance[y][x] for y in cards)) for x in range(m)]
        assert holding.chance[value].tolist() == pytest.approx(held)


def test_a_row_shows_the_commonest_value_of_its_card() -> None:
    """Asthma is on five of the six cards, flu on four, mumps on two, and gout on one."""
    shown = Estimator.of(SMALL).shown_value(codes(0, 0, 0, 1, 3, 3))
    assert [SMALL.domain.labels[code] for code in shown] == ["asthma"] * 3 + ["flu"] + ["asthma"] * 2


# --- whole releases ---------------------------------------------------------------------------------------------------


def people(n: int = 2000, seed: int = 5) -> pa.Table:
    """Return people in random order, whose disease depends on nothing; every age is unique."""
    rng = np.random.default_rng(seed)
    shares = 0.8 ** np.arange(len(VALUES))
    return pa.table(
        {
            "name": [f"patient {k}" for k in range(n)],
            "age": rng.permutation(n).tolist(),
            "sex": rng.choice(["F", "M"], n).tolist(),
            "disease": rng.choice(VALUES, n, p=shares / shares.sum()).tolist(),
        }
    )


def policy_of(form: Form, shuffle: bool = True) -> Policy:
    order = "" if shuffle else '[output]\norder = "keep"'
    return make_policy(ROLES, f"gamma = {GAMMA}", "subset", order, f'form = "{form}"')


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_honest_releases_are_within_their_bounds(form: Form, shuffle: bool, tmp_path: Path) -> None:
    rows, policy = people(), policy_of(form, shuffle)
    pacsv.write_csv(rows, tmp_path / "t.csv")
    register = rows.select(["age", "sex"]).slice(0, 200)
    found = []
    for table, format in ((rows, "parquet"), (tmp_path / "t.csv", "csv")):
        release = released(table, policy, folder=tmp_path / format, shuffle=shuffle, format=format)
        found.append(sf.audit(sf.scan(table, policy), release, seed=1, external=register))
        assert found[-1].holds, found[-1].explain()
    figures = [(f.attacker, f.about, f.verdict, pytest.approx(f.worst)) for f in found[0].findings]
    assert [(f.attacker, f.about, f.verdict, f.worst) for f in found[1].findings] == figures
    covered = {f.attacker for f in found[0].findings if f.verdict == "within the bound"}
    assert {"draws", "posterior", "frequencies", "background", "residue"} <= covered
    text = found[0].explain()
    assert "own value" not in text
    assert "coincidence" not in {f.about for f in found[0].findings}


def test_who_could_not_be_measured_is_a_group_of_its_own_and_counted_as_not_covered(tmp_path: Path) -> None:
    """Beliefs of someone who knows the composition are computed for matrices of retentions, and these are sets."""
    rows, policy = people(500), policy_of("set")
    table, release = sf.scan(rows, policy), released(rows, policy, folder=tmp_path / "r")
    found = sf.audit(table, release, seed=1)
    assert [each.attacker for each in found.not_measured] == ["composition"]
    screen = first_screen(found, release.manifest).text(120)
    assert "of whom 1 could not be measured" in screen
    assert "Not measured  composition: it is computed for matrices that keep a value" in screen
    assert screen.count("posterior: starts from") == 1
    assert "posterior, falling: " in screen
    assert "Not measured, so count these as not covered:" in found.explain()
    page = html_of(private_page(release, found.to_dict(), table))
    assert "(1 of them not measured): whoever signs decides about these" in page
    assert "Not measured: count these as not covered" in page
    assert "Not measured, so count as not covered: someone who knows how many records" in page


@pytest.mark.parametrize("form", FORMS)
def test_pages_speak_of_sets(form: Form, tmp_path: Path) -> None:
    rows, policy = people(500), policy_of(form)
    table, release = sf.scan(rows, policy), released(rows, policy, folder=tmp_path / "r")
    record = sf.audit(table, release, seed=1).to_dict()
    texts = [html_of(page) for page in (private_page(release, record, table), public_page(release, record))]
    for text in texts:
        assert "each record was published with a set of 3 of the 13 values, one of 286 that are used" in text
        assert "The set of a record holds its own value with a probability of 54.55%, and any one other with" in text
        assert "published sets, all values alike" in text
        for nonsense in ("kept its", "published as itself", "published rows", "its published value"):
            assert nonsense not in text
    beliefs_of_cards, numbers = beliefs(release) or (np.zeros(0), np.zeros(0))
    assert numbers.sum() == 500
    assert beliefs_of_cards.max() < 1


def test_methods_are_compared_with_sets() -> None:
    rows = people(300)
    rows = rows.set_column(1, "age", pa.array((np.arange(300) % 3 * 10).tolist()))
    found = {}
    for form in FORMS:
        compared = sf.compare(sf.scan(rows, policy_of(form)), repeat=1, seed=1)
        (own,) = (each for each in compared.methods if each.own)
        assert own.figures is not None
        assert own.figures.promised is not None
        found[form] = own.figures
        assert "subset" in compared.explain()
    assert found["set"].guessed == found["card"].guessed
    assert found["set"].mean_error == found["card"].mean_error


# --- faults -----------------------------------------------------------------------------------------------------------


def redrawn(release: Release, rows: pa.Table, gamma: float, words: np.ndarray) -> Release:
    """Publish cards of the same deck that were drawn with another gamma, by these words; shuffled, if they were."""
    mechanism, shuffled = release.manifest.mechanism_values[0], release.manifest.data.shuffled
    matrix = mechanism.matrix
    assert isinstance(matrix, DeckMatrix)
    order = np.random.default_rng(9).permutation(len(rows)) if shuffled else np.arange(len(rows))
    index = {value: code for code, value in enumerate(mechanism.domain.values)}
    true = codes(*(index[value] for value in rows["disease"].to_pylist()))
    cards = DeckMatrix.within(matrix.values, matrix.blocks, Fraction(gamma)).sample(true, words)
    shown = [mechanism.published.labels[card] for card in cards.tolist()]
    disease = pa.array([text.split(BETWEEN) for text in shown] if mechanism.form == "set" else shown)
    data = pq.read_table(release.data)
    for name, column in (("age", rows["age"]), ("sex", rows["sex"]), ("disease", disease)):
        field, taken = data.schema.field(name), column.take(pa.array(order))
        coded = taken.dictionary_encode() if pa.types.is_dictionary(field.type) else taken
        data = data.set_column(data.schema.get_field_index(name), field, coded.cast(field.type))
    pq.write_table(data, release.data, store_schema=False)
    return resealed(release)


def random_words(n: int) -> np.ndarray:
    return np.random.default_rng(8).integers(0, 2**64, n, dtype=np.uint64, endpoint=False)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_audit_finds_draws_with_another_gamma(form: Form, shuffle: bool, tmp_path: Path) -> None:
    rows, policy = people(), policy_of(form, shuffle)
    honest = released(rows, policy, folder=tmp_path / "r", shuffle=shuffle)
    release = redrawn(honest, rows, GAMMA, random_words(2000))
    assert above(rows, policy, release) == []
    release = redrawn(release, rows, 2 * GAMMA, random_words(2000))
    assert ("draws", "transitions") in above(rows, policy, release)


def test_audit_finds_another_gamma_in_shuffled_rows_that_nobody_can_tell_apart(tmp_path: Path) -> None:
    """By the values that too many and too few cards hold."""
    rows, policy = people(40_000), policy_of("card")
    rows = rows.set_column(1, "age", pa.array((np.arange(40_000) % 5).tolist()))
    honest = released(rows, policy, folder=tmp_path / "r")
    release = redrawn(honest, rows, GAMMA, random_words(40_000))
    assert above(rows, policy, release) == []
    release = redrawn(release, rows, 2 * GAMMA, random_words(40_000))
    assert above(rows, policy, release) == [("draws", "margins")]


@pytest.mark.parametrize("form", FORMS)
def test_audit_finds_cards_that_always_hold_the_truth(form: Form, tmp_path: Path) -> None:
    rows, policy = people(), policy_of(form)
    release = redrawn(released(rows, policy, folder=tmp_path / "r"), rows, 10**9, random_words(2000))
    assert {("draws", "transitions"), ("draws", "by column")} <= set(above(rows, policy, release))


@pytest.mark.parametrize("form", FORMS)
def test_audit_finds_words_that_are_used_twice(form: Form, tmp_path: Path) -> None:
    """For the next row; and for a second release."""
    rows, policy = people(), policy_of(form, shuffle=False)
    release = released(rows, policy, folder=tmp_path / "r", shuffle=False)
    again = released(rows, policy, folder=tmp_path / "again", shuffle=False)
    other = released(rows, policy, folder=tmp_path / "other", shuffle=False, seed=2)
    table = sf.scan(rows, policy)
    for earlier, broken in ((again, True), (other, False)):
        (found,) = (f for f in sf.audit(table, release, earlier=earlier).findings if f.attacker == "reuse")
        assert found.broken == broken
    release = redrawn(release, rows, GAMMA, np.repeat(random_words(1000), 2))
    assert above(rows, policy, release) == [("draws", "neighbours")]

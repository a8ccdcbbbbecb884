"""AD's experiments: verdicts that must hold, competitors against slow counts, and chance that is not called equal."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sfumato.auditor.utility.measuring import uncertainty
from sfumato.methods.generalization import roll_up
from sfumato.methods.response.joint import JointTable
from sfumato.values.arrays import IntArray
from sfumato_papers.ad import EXPERIMENTS, correlations, figure3, levels, rows, study, table3, times
from sfumato_papers.ad.competitors import Anatomized, Places, anatomize, anatomize_in_order, independent
from sfumato_papers.ad.equal_risk import Curve
from sfumato_papers.ad.measures import LARGEST, SUCCESS, WITH_SENSITIVE, WITHIN, Repeated, correlation
from sfumato_papers.ad.study import (
    ANATOMY,
    BAYES,
    DIVERSITY,
    INDEPENDENT,
    LEAST_SQUARES,
    PROVED,
    RR,
    Study,
    studied,
)
from sfumato_papers.ad.tables import EMGRW, ESGRO, Joint, hierarchies, joint
from sfumato_papers.charts import Point
from sfumato_papers.data import Data, Named
from sfumato_papers.experiment import BY_DESIGN, ONE_RUN, Comparison, Outcome, Setting

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
SIMULATED = ("ad-fig3", "ad-fig4", "ad-fig5", "ad-fig6", "ad-table4", "ad-table5", "ad-fig7", "ad-equal-risk")


@pytest.fixture
def adult(real_data: Callable[[str], Path]) -> Data:
    return Data(real_data("adult_complete_45222.parquet").parent)


@cache
def outcome(name: str, data: Data, seed: int = 1) -> Outcome:
    return BY_NAME[name].run(Setting(data, quick=True, seed=seed))


def by_what(found: Outcome) -> dict[str, Comparison]:
    named = {comparison.what: comparison for comparison in found.comparisons}
    assert len(named) == len(found.comparisons)
    return named


# --- Fig. 2 and Table 3 -----------------------------------------------------------------------------------------------


def test_every_place_is_there() -> None:
    assert list(BY_NAME) == ["ad-fig2", "ad-table3", *SIMULATED, "ad-time"]


def test_figure_2_needs_no_data() -> None:
    found = outcome("ad-fig2", Data())
    verdicts = {what: comparison.verdict for what, comparison in by_what(found).items()}
    assert verdicts.pop("Property 1, closed form for QI and S") == "differs"  # a square is lost
    assert set(verdicts.values()) == {"equal"}
    assert [c.printed for c in found.comparisons if c.what.startswith("Fig. 2")] == [
        "0.18",
        "0.05",
    ]  # others are fitted
    assert len(found.rows) == 3 * 41


def test_table_3(adult: Data) -> None:
    found = outcome("ad-table3", adult)
    named = by_what(found)
    columns = {"RR-QI": "EMGR", "RR-Both": "EMGRW"}
    cells = [f"{scope}, l = {l}, {column}" for scope, of in columns.items() for l in (2, 3, 4, 5) for column in of]
    differing = {what for what in cells if named[what].verdict == "differs"}
    assert differing == {f"RR-QI, l = 3, {column}" for column in "EMGR"}
    assert all("costs 3.2" in named[what].because for what in differing)
    for l in (2, 3, 4, 5):
        assert "283 groups" in named[f"RR-S, l = {l}, W (printed in the column W of RR-QI)"].because
    assert len(found.rows) == 2 * 4 * 5
    above = {what for what in named if "risk at the printed" in what and named[what].verdict == "differs"}
    assert {what.partition(":")[0] for what in above} == {
        *(f"RR-QI, l = {l}" for l in (2, 3, 4)),
        *(f"RR-Both, l = {l}" for l in (2, 4)),
    }
    assert all("so rounding explains it" in named[what].because for what in above)
    assert named["Table 3: a larger l"].verdict == named["Table 3: RR-Both against RR-QI"].verdict == "equal"
    assert "0.739 without any" in named["what an attacker can infer at l = 2"].as_published


def test_table_3_tells_rounding_from_a_limit_that_is_not_kept(adult: Data) -> None:
    """By the least risk of parameters that round to the printed ones."""
    table = joint(adult, EMGRW)
    ours = study.solved(adult, EMGRW, Fraction(1, 4), "reconstruction")
    assert ours is not None
    channels = table3.printed_channels(table, "RR-QI", 4)
    for least, told in ((0.2499, "so rounding explains it"), (0.2501, "so it is not by rounding")):
        found = table3.Found("RR-QI", 4, table3.PRINTED["RR-QI"][4], ours, channels, 0.2503, least, 0.0)
        assert told in table3._limit(table, found).because


def test_which_rows_the_paper_s_figures_are_of(adult: Data) -> None:
    train, whole = rows.both(adult)
    assert (train.rows, train.as_printed) == (30_162, 10)
    assert (whole.rows, whole.as_printed) == (45_222, 0)
    expected = [11.37, 0.66, 1.82, 4.07, 1.06, 1.03, 9.82, 2.68, 4.42, 0.55]
    assert list(whole.found.values()) == pytest.approx(expected, abs=0.0051)


# --- Tables 4 and 5 ---------------------------------------------------------------------------------------------------


def test_what_has_no_chance_in_tables_4_and_5(adult: Data) -> None:
    """The original is as printed; of the l-diverse tables only associations of education are compared, and differ."""
    diverse = {}
    for name, number in (("ad-table4", 6), ("ad-table5", 4)):
        named = by_what(outcome(name, adult))
        assert [c.verdict for what, c in named.items() if what.startswith("original")] == ["equal"] * number
        diverse |= {what: c for what, c in named.items() if f", {DIVERSITY}, " in what}
    assert {what.replace(f"{DIVERSITY}, ", ""): c.printed for what, c in diverse.items()} == {
        "l = 4, E vs. S": "9.18",
        "l = 5, E vs. R": "0.21",
        "l = 3, E vs. O": "8.86",
        "l = 4, E vs. O": "7.91",
        "l = 5, E vs. O": "7.91",
    }
    assert {c.verdict for c in diverse.values()} == {"differs"}
    assert "110 give this figure" in diverse[f"l = 5, {DIVERSITY}, E vs. O"].because


def test_levels_with_the_printed_zeros_are_diverse(adult: Data) -> None:
    named = by_what(outcome("ad-table4", adult))
    told = {
        l: named[f"Tables 4 and 5, l = {l}: the pairs without association in the {l}-diverse table"] for l in (3, 4, 5)
    }
    assert {c.verdict for c in told.values()} == {"equal"}
    for l, diversity in ((3, "3.60 and not minimal"), (4, "6.40 and minimal"), (5, "7.53 and minimal")):
        assert f"up to l = {diversity}" in told[l].as_published


def test_zeros_that_no_diverse_levels_have_differ(adult: Data) -> None:
    """With race and gender left alone, as well as education, no class structure is 5-diverse."""
    table = joint(adult, ESGRO)
    printed = {pair: "0" if "S" in pair else "1" for pair in (*WITHIN, *WITH_SENSITIVE)}
    assert levels.fitted(table, hierarchies(adult, table), 5, printed) is None
    assert levels.fitted(table, hierarchies(adult, table), 1, printed) is not None


def test_the_order_of_equally_frequent_values_decides_anatomy_s_figures(adult: Data) -> None:
    named = by_what(outcome("ad-table5", adult))
    found = named["l = 4, Anatomy, G vs. O"]
    assert found.verdict == "differs"
    assert "with one order throughout it is" in found.because
    least, most = (
        next(
            row["G vs. O"]
            for row in outcome("ad-table5", adult).rows
            if row["l"] == 3 and f"{name} over" in row["method"]
        )
        for name in ("least", "most")
    )
    assert least < 0.25 < 0.31 < 0.5 < most  # .25 is printed; .31 is the mean where a new order is drawn each time


def test_u_is_never_negative(adult: Data) -> None:
    found = by_what(outcome("ad-table4", adult))["Eq. (12): the values that U takes"]
    assert (found.printed, found.verdict) == ("between -1 and 1", "differs")


def draw_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything be drawn twice only."""
    monkeypatch.setattr(study, "QUICK_REPETITIONS", 2)
    monkeypatch.setattr(correlations, "QUICK_ORDERS", 2)


def test_chance_is_never_called_equal(adult: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is equal under one seed is the same under another, to the last shown digit."""
    equal = {name: [c for c in outcome(name, adult).comparisons if c.verdict == "equal"] for name in SIMULATED}
    assert equal["ad-fig4"] == []
    draw_twice(monkeypatch)
    for name in (name for name in SIMULATED if equal[name]):
        other = by_what(outcome(name, adult, seed=2))
        assert [other[c.what].as_published for c in equal[name]] == [c.as_published for c in equal[name]]


def test_the_same_seed_gives_the_same(adult: Data) -> None:
    def drawn(seed: int) -> list[dict[str, float]]:
        found = study._at.__wrapped__(adult, seed, 2, 3)
        return [dict(run) for repeated in found.values() for run in repeated.runs]

    assert drawn(1) == drawn(1) != drawn(2)
    again = figure3.run(Setting(adult, quick=True))
    assert outcome("ad-fig3", adult).rows == again.rows
    assert outcome("ad-fig3", adult).comparisons == again.comparisons


# --- what comes out ---------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(adult: Data) -> Study:
    return studied(Setting(adult, quick=True))


def test_rows_of_the_study(measured: Study) -> None:
    assert list(measured.at) == [1, 2, 3, 4, 5, 6, 7]
    assert {len(methods) for methods in measured.at.values()} == {8}
    assert len(list(measured.rows(("KL",)))) == 56
    assert all(measured.mean(method, 1, "L2") < 1e-12 for method in (RR, BAYES, PROVED, ANATOMY, DIVERSITY))


def test_randomization_is_nearer_than_the_paper_s_competitors(measured: Study) -> None:
    """In KL and L2, by more than a fifth at every l: far more than the means' standard errors."""
    for name in ("KL", "L2"):
        for other in (ANATOMY, DIVERSITY):
            assert all(1.2 * a < b for a, b in zip(measured.means(RR, name), measured.means(other, name), strict=True))


def test_generalization_does_not_beat_independent_columns(measured: Study) -> None:
    for name in ("KL", "chi-square", "L2", "base", "cube"):
        assert measured.not_less(DIVERSITY, INDEPENDENT, name) == [2, 3, 4, 5, 6, 7]
    assert measured.not_less(PROVED, INDEPENDENT, "KL")[-2:] == [6, 7]
    assert measured.not_less(RR, INDEPENDENT, "KL") == []


def test_least_squares_finds_what_anatomy_is_said_to_lose(measured: Study) -> None:
    for l in (2, 3, 4, 5):
        assert measured.mean(LEAST_SQUARES, l, "L2") < measured.mean(ANATOMY, l, "L2") / 2
        assert measured.mean(ANATOMY, l, "S vs. O") < 0.6 < 2.2 < measured.mean(LEAST_SQUARES, l, "S vs. O")


def test_the_same_l_is_not_the_same_risk(measured: Study) -> None:
    """At l = 2 the guesser is right for about 73, 32 and 28% of the people."""
    found = [measured.mean(method, 2, SUCCESS) for method in (ANATOMY, RR, DIVERSITY)]
    assert found == pytest.approx([0.728, 0.318, 0.2762], abs=0.005)
    assert measured.mean(INDEPENDENT, 2, SUCCESS) == pytest.approx(0.1339, abs=5e-5)
    gained = [measured.mean(PROVED, l, LARGEST) - measured.mean(PROVED, l, SUCCESS) for l in (2, 3, 4)]
    assert gained == pytest.approx([0.006, 0.012, 0.013], abs=0.005)  # by stopping before noise is fitted


def test_at_equal_risk_the_paper_s_estimate_does_not_beat_l_diversity(adult: Data) -> None:
    found = outcome("ad-equal-risk", adult)
    named = by_what(found)
    for name in ("KL", "L2", "base", "cube"):
        assert named[f"{name} at equal measured risk: randomization against {DIVERSITY}"].verdict == "differs"
    note = next(note for note in found.notes if note.startswith("Who stops after as many of 1, 3, 10, 30 or 100 steps"))
    assert f"L2 against {LEAST_SQUARES} at l = 7" in note  # a better guesser takes that away
    least_squares = named[f"L2 at equal measured risk: randomization against {LEAST_SQUARES}"]
    assert least_squares.verdict == "within noise"
    assert "not judged at l = 2, 3, 4, 5, 6: the table as it is has no larger risk" in least_squares.as_published
    assert {row["l"] for row in found.rows} >= {1.0, 7.0, 10.0, 23.0}


# --- without the original ---------------------------------------------------------------------------------------------


class FewRows(Data):
    """A generated Adult with a tenth of the rows."""

    def adult_train(self) -> Named:
        named = super().adult_train()
        return replace(named, table=named.table.slice(0, 3_000))


def test_a_generated_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_twice(monkeypatch)
    found = outcome("ad-table5", FewRows())
    assert found.data.startswith("generated")
    assert {(c.verdict, c.because) for c in found.comparisons} == {("differs", BY_DESIGN)}
    for name in ("ad-fig5", "ad-fig6", "ad-fig7", "ad-equal-risk"):
        assert outcome(name, FewRows()).data == found.data


# --- the competitors --------------------------------------------------------------------------------------------------


def small(rng: np.random.Generator, rows: int = 60) -> Joint:
    """Two quasi-identifiers of 3 and 2 values, and 5 sensitive values."""
    codes = np.column_stack([rng.integers(0, size, rows) for size in (3, 2, 5)])
    table = JointTable.from_cells((3, 2, 5), codes, np.ones(rows))
    values = tuple(tuple(map(str, range(size))) for size in (3, 2, 5))
    return Joint(("a", "b", "s"), values, codes, table, "small", False)


@pytest.mark.parametrize("grouped", [anatomize, anatomize_in_order])
@pytest.mark.parametrize("l", [1, 2, 3, 4])
def test_anatomize(l: int, grouped: Callable[[IntArray, int, np.random.Generator], Places]) -> None:
    rng = np.random.default_rng(l)
    for _ in range(20):
        counts = np.bincount(rng.integers(0, 7, 90), minlength=7)
        if l * counts.max() > 90:
            continue
        places = grouped(counts, l, rng)
        assert np.bincount(places.values, minlength=7).tolist() == counts.tolist()
        pairs = list(zip(places.groups.tolist(), places.values.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)  # no value twice in a group
        sizes = Counter(group for group, _ in pairs)
        assert min(sizes.values()) >= l
        assert len(sizes) == 90 // l


def test_anatomize_takes_the_most_frequent_values_first() -> None:
    places = anatomize(np.array([1, 4, 2, 3]), 2, np.random.default_rng(0))
    assert places.values[places.groups == 0].tolist() == [1, 3]


def test_one_order_decides_between_equal_numbers_alike_throughout() -> None:
    """Four values with 6 records each, by twos: the first two, the others, and so on; by chance all pairs come."""
    counts = np.full(4, 6)

    def pairs(grouped: Callable[[IntArray, int, np.random.Generator], Places]) -> set[tuple[int, ...]]:
        places = grouped(counts, 2, np.random.default_rng(3))
        return {tuple(places.values[places.groups == group].tolist()) for group in range(12)}

    assert len(pairs(anatomize_in_order)) == 2
    assert len(pairs(anatomize)) > 2


def test_anatomys_own_estimate_against_rows() -> None:
    rng = np.random.default_rng(1)
    table = small(rng)
    release = Anatomized.dealt(table, anatomize(np.bincount(table.codes[:, -1]), 2, rng), rng)
    expected = np.zeros((3, 2, 5))
    for group in np.unique(release.groups):
        members = table.codes[release.groups == group]
        values = Counter(release.places.values[release.places.groups == group].tolist())
        assert values == Counter(members[:, 2].tolist())
        for a, b, _ in members.tolist():
            for value, number in values.items():
                expected[a, b, value] += number / len(members)
    classical, least_squares = release.estimates()
    assert classical == pytest.approx(expected)
    for estimate in (classical, least_squares):
        assert estimate.sum(axis=(0, 1)) == pytest.approx(np.bincount(table.codes[:, -1]))
        assert estimate.sum(axis=2) == pytest.approx(table.counts.sum(axis=2))


def test_the_guesser_takes_what_is_over_represented() -> None:
    """Three people alike with value 0 and three others with 1, in groups of one each: the true table tells all."""
    codes = np.array([[0, 0]] * 3 + [[1, 1]] * 3)
    table = Joint(
        ("a", "s"), (("x", "y"), ("0", "1")), codes, JointTable.from_cells((2, 2), codes, np.ones(6)), "small", False
    )
    places = Places(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1] * 3))
    release = Anatomized.dealt(table, places, np.random.default_rng(0))
    assert release.success(table.counts) == 1
    assert release.success(table.counts[::-1]) == 0


def test_independent_columns_keep_their_margins() -> None:
    counts = np.random.default_rng(0).integers(0, 9, (3, 2, 4)).astype(float)
    found = independent(counts)
    for axis in range(3):
        others = tuple(k for k in range(3) if k != axis)
        assert found.sum(axis=others) == pytest.approx(counts.sum(axis=others))


def test_groupings_of_neighbours_against_slow_sums() -> None:
    margin = np.random.default_rng(0).integers(0, 9, (5, 3)).astype(float)
    slow = []
    for mask in range(16):
        starts = [0, *(k + 1 for k in range(4) if mask >> k & 1)]
        slow.append(100 * uncertainty(np.add.reduceat(margin, starts, axis=0)) if mask else 0.0)
    assert sorted(levels.groupings_of_neighbours(margin)) == pytest.approx(sorted(slow), abs=1e-9)


def test_white_and_others_is_one_of_two_groupings_with_the_printed_figure(adult: Data) -> None:
    table = joint(adult, ESGRO)
    assert levels.groupings_of_race(table, "0.37") == (51, 2)
    coarse = roll_up(table.counts, hierarchies(adult, table), (0, 0, 0, 1))
    assert f"{correlation(coarse, 'R vs. O'):.2f}" == "0.37"


def test_correlations_of_independent_columns_are_zero() -> None:
    counts = independent(np.random.default_rng(0).integers(1, 9, (4, 2, 2, 3, 5)).astype(float))
    assert [correlation(counts, pair) for pair in ("E vs. O", "G vs. R")] == pytest.approx([0, 0], abs=1e-9)
    assert correlation(counts.sum(axis=1, keepdims=True), "E vs. S") == 0


@pytest.mark.parametrize(("seconds", "verdicts"), [((1.0, 0.1, 0.5), "holds"), ((1.0, 0.6, 2.0), "ten times, Anatomy")])
def test_times_are_judged_by_their_ratios(seconds: tuple[float, float, float], verdicts: str) -> None:
    methods = dict(zip((times.BOTH, DIVERSITY, ANATOMY), seconds, strict=True))
    found = list(times._comparisons(Setting(Data()), [times.Timed("ESGRO", l, methods) for l in (2, 3)]))
    differing = [
        "ten times" if "how much" in c.what else c.what[len("RR-Both against ") :]
        for c in found
        if c.verdict == "differs"
    ]
    assert ", ".join(differing) == ("" if verdicts == "holds" else verdicts)


def test_times_are_measured_where_a_method_can_be_had(adult: Data) -> None:
    found = outcome("ad-time", adult)
    assert [(row["table"], row["l"]) for row in found.rows if row["method"] == ANATOMY] == [
        ("ESGRO", l) for l in range(2, 8)
    ]
    assert len(found.rows) == 3 * 6 + 2
    assert all(c.because.startswith(ONE_RUN) for c in found.comparisons)


def test_a_curve_is_read_between_its_points() -> None:
    points = tuple(Repeated.of([{SUCCESS: risk, "KL": kl}]) for risk, kl in ((0.3, 0.1), (0.1, 1.1), (0.2, 0.5)))
    curve = Curve((1.0, 9.0, 5.0), points)
    found = [curve.at(risk, "KL") for risk in (0.05, 0.1, 0.15, 0.25, 0.9)]
    assert found[0] is None
    assert found[1:] == pytest.approx([1.1, 0.8, 0.3, 0.1])
    assert [curve.limit(risk) for risk in (0.05, 0.15, 0.25)] == [None, *map(pytest.approx, (7.0, 3.0))]


def test_ranked_points() -> None:
    points = [Point("a", 1, 5.0), Point("b", 1, 1.0), Point("a", 2, 0.25), Point("b", 2, 0.5)]
    assert study.ranked(points) == "a 0.25; b 0.5"

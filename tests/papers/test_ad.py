"""AD: Table 1 and Fig. 2, Property 1, Table 3 on Adult, and what its risk does not bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sfumato.methods.response.guessing import guesses, limit_success
from sfumato.methods.response.joint import Channel, Channels, JointTable, kappa, untouched
from sfumato.methods.response.problem import Scope, pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.risks import Link, Posterior, Reconstruction
from sfumato.methods.response.solver import solve
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import WORDS

Data = Callable[[str], Path]
EMGR = ("education", "marital_status", "sex", "race")
ESGR = ("education", "income", "sex", "race")
SCOPES: tuple[Scope, ...] = ("quasi-identifiers", "both")

TABLE_3: dict[Scope, dict[int, tuple[float, ...]]] = {
    "quasi-identifiers": {  # the column printed under W cannot be RR-QI's, which leaves W alone
        2: (0.824, 0.872, 0.920, 0.941, 1),
        3: (0.548, 0.812, 0.898, 0.985, 1),
        4: (0.382, 0.736, 0.918, 0.961, 1),
        5: (0.314, 0.615, 0.873, 0.938, 1),
    },
    "both": {
        2: (0.824, 0.872, 0.920, 0.941, 1),
        3: (0.573, 0.821, 0.913, 0.973, 0.955),
        4: (0.428, 0.780, 0.926, 0.953, 0.871),
        5: (0.353, 0.688, 0.902, 0.953, 0.813),
    },
}
CASES = [(scope, diversity) for scope in SCOPES for diversity in (2, 3, 4, 5)]


# --- Table 1, Fig. 2 and Property 1 -----------------------------------------------------------------------------------


def example(p_gender: float, p_disease: float) -> float:
    """The risk of a woman with cancer: 28 women among 100 people, 12 of them with cancer."""
    table = JointTable.from_array([[20, 30, 22], [12, 8, 8]])
    channels = (Channel.from_diagonal(2, p_gender), Channel.from_diagonal(3, p_disease))
    return float(Reconstruction(table, channels).values.reshape(2, 3)[1, 0])


def test_figure_2() -> None:
    """0.43 without randomization; at the least 0.18 by S, 0.12 by QI, 0.05 by both."""
    figures = [example(1, 1), example(1, 1 / 3), example(1 / 2, 1), example(1 / 2, 1 / 3)]
    assert [round(risk, 2) for risk in figures] == [0.43, 0.18, 0.12, 0.05]
    assert figures == pytest.approx([12 / 28, (12 / 28) ** 2, 0.12, 0.12**2 / 0.28], rel=1e-14)


def test_property_1_the_minimum_is_at_no_retention() -> None:
    """Also below it: with p < 1/d the risk rises again (the formulas hold there too)."""
    table = JointTable.from_array([[20, 30, 22], [12, 8, 8]])
    grid = np.linspace(0.02, 1, 50)

    def risk(p: float, q: float) -> float:
        channels = (Channel(2, 2 * p - 1, 1 - p), Channel(3, (3 * q - 1) / 2, (1 - q) / 2))
        return float(Reconstruction(table, channels).values.reshape(2, 3)[1, 0])

    assert min(risk(1, q) for q in grid) >= (12 / 28) ** 2
    assert min(risk(p, 1) for p in grid) >= 0.12
    assert min(risk(p, q) for p in grid for q in grid) >= 0.12**2 / 0.28
    assert risk(0.3, 1) > risk(0.4, 1) > risk(0.5, 1) < risk(0.6, 1)


# --- Table 3 on Adult -------------------------------------------------------------------------------------------------


def adult(real_data: Data, quasi: Sequence[str], sensitive: str) -> JointTable:
    """The joint table of the 30,162 rows of adult.data; codes in alphabetical order."""
    columns = [*quasi, sensitive]
    rows = pq.read_table(real_data("adult_complete_45222.parquet"), columns=[*columns, "split"])
    rows = rows.filter(pc.equal(rows["split"], "train"))
    pairs = [np.unique(rows[name].cast("string").to_numpy(), return_inverse=True) for name in columns]
    cells = np.column_stack([codes for _, codes in pairs])
    return JointTable.from_cells([len(values) for values, _ in pairs], cells, np.ones(len(cells)))


@pytest.fixture
def emgrw(real_data: Data) -> JointTable:
    return adult(real_data, EMGR, "workclass")


def printed(table: JointTable, scope: Scope, diversity: int) -> Channels:
    pairs = zip(table.sizes, TABLE_3[scope][diversity], strict=True)
    return tuple(Channel.from_diagonal(d, p) for d, p in pairs)


def test_emgrw_is_the_table_of_the_paper(emgrw: JointTable) -> None:
    assert emgrw.sizes == (16, 7, 2, 5, 7)
    assert emgrw.records == 30_162
    assert len(emgrw.groups) == 603
    assert len(emgrw.single_valued) == 283


@pytest.mark.parametrize(("scope", "diversity"), CASES)
def test_table_3_has_the_risk_that_it_should(emgrw: JointTable, scope: Scope, diversity: int) -> None:
    """Three digits: 1/l to 4 in 10,000. Some are above 1/l, since p was rounded to nearest."""
    risk = Reconstruction(emgrw, printed(emgrw, scope, diversity)).values.max()
    assert risk == pytest.approx(1 / diversity, abs=4e-4)


def test_rounding_to_nearest_breaks_the_bound(emgrw: JointTable) -> None:
    above = [case for case in CASES if Reconstruction(emgrw, printed(emgrw, *case)).values.max() > 1 / case[1]]
    assert above == [*((SCOPES[0], n) for n in (2, 3, 4)), *((SCOPES[1], n) for n in (2, 4))]


@pytest.mark.parametrize(("scope", "diversity"), CASES)
def test_table_3_is_not_better(emgrw: JointTable, scope: Scope, diversity: int) -> None:
    """With the larger of 1/l and the printed point's own risk as the limit, ours never costs more."""
    theirs = printed(emgrw, scope, diversity)
    limit = max(1 / diversity, float(Reconstruction(emgrw, theirs).values.max()))
    ours = solve(pose(emgrw, limit, risk="reconstruction", scope=scope))
    assert ours.risk <= limit
    assert ours.kappa < kappa(theirs)
    if (scope, diversity) == ("quasi-identifiers", 3):
        # the paper's search stopped early; at 1/3 itself, which the printed point exceeds, ours has 7.110 (OURS)
        assert (kappa(theirs), ours.kappa) == pytest.approx((7.326, 7.096), abs=5e-4)
        assert limit == pytest.approx(0.333541, abs=5e-7)
    else:
        assert ours.diagonal == pytest.approx(TABLE_3[scope][diversity], abs=0.005)


OURS: dict[Scope, list[float]] = {
    "quasi-identifiers": [2.694436, 7.110273, 20.833456, 61.916479],
    "both": [2.694436, 6.966267, 18.410862, 48.146404],
}


@pytest.mark.parametrize(("scope", "diversity"), CASES)
def test_the_limit_holds_exactly(emgrw: JointTable, scope: Scope, diversity: int) -> None:
    """In integers, for every cell: on what is sampled the risk is at most 1/l, and reaches it."""
    found = solve(pose(emgrw, Fraction(1, diversity), risk="reconstruction", scope=scope))
    exact = upper_risk(emgrw, found.noise)
    assert exact <= Fraction(1, diversity)
    assert exact > Fraction(1, diversity) * (1 - Fraction(1, 10**8))
    assert exact <= Fraction(found.risk)
    assert found.kappa == pytest.approx(OURS[scope][diversity - 2], abs=1e-6)
    assert found.expected_error == (found.kappa - 1) / 30_162


def upper_risk(table: JointTable, noise: tuple[int, ...]) -> Fraction:
    """The largest risk of AD Eq. (6) on the integers, every quotient rounded up at its 2,000th binary digit."""
    digits = 1 << 2000

    def along(axes: Sequence[int], x: np.ndarray, squared: bool, first: int = 0) -> np.ndarray:
        """P or P o P with weights over 2^64 or 2^128, in Python's integers."""
        for axis, k in enumerate(axes, start=first):
            off, diagonal = noise[k], WORDS - (table.sizes[k] - 1) * noise[k]
            own, spread = (diagonal**2 - off**2, off**2) if squared else (diagonal - off, off)
            x = own * x + spread * x.sum(axis=axis, keepdims=True)
        return x

    def back(axes: Sequence[int], counts: np.ndarray, first: int = 0) -> np.ndarray:
        """(P o P)^T (1/P x), scaled by `digits` and 2^64 for each axis."""
        released = along(axes, counts, False, first)
        inverse = np.frompyfunc(lambda x: -(-digits // x) if x else 0, 1, 1)(released)
        return along(axes, inverse, True, first)

    whole = np.frompyfunc(int, 1, 1)
    last = len(table.sizes) - 1
    linked = back(range(last), whole(table.group_array)).ravel()[table.places]
    counts = whole(table.counts)
    risk = (counts**2 * linked[:, None] * back((last,), counts, first=1)).max()
    return Fraction(risk, digits**2 * WORDS ** len(table.sizes))


def test_rr_both_costs_least_and_more_privacy_costs_more(emgrw: JointTable) -> None:
    """AD Fig. 3 and 4, in expectation: errors grow with l, RR-Both's are least, and fall as 1/N."""
    limits = [Fraction(1, n) for n in (2, 3, 4, 5)]
    errors = [
        [solve(pose(emgrw, limit, risk="reconstruction", scope=scope)).expected_error for limit in limits]
        for scope in SCOPES
    ]
    assert all(a < b for curve in errors for a, b in pairwise(curve))
    assert all(b < a * (1 + 1e-7) for a, b in zip(*errors, strict=True))
    double = JointTable(emgrw.sizes, emgrw.groups, 2 * emgrw.counts)
    again = solve(pose(double, limits[1], risk="reconstruction"))
    assert 2 * again.expected_error == pytest.approx(errors[1][1], rel=1e-9)


@pytest.mark.parametrize("diversity", [2, 3, 4, 5])
def test_rr_s_cannot_be_had(emgrw: JointTable, diversity: int) -> None:
    """283 groups have one sensitive value: their risk is 1 whatever p_s is, also at the printed ones."""
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(emgrw, Fraction(1, diversity), risk="reconstruction", scope="sensitive"))
    assert error.value.least == pytest.approx(1, rel=1e-12)
    assert "283 of which have a single sensitive value" in error.value.message
    for p in (0.650, 0.267, 0.217, 0.167):
        channels = (*untouched(emgrw.sizes[:-1]), Channel.from_diagonal(7, p))
        risks = Reconstruction(emgrw, channels).values.reshape(-1, 7)
        assert (risks.max(axis=1) > 1 - 1e-12).sum() == 283


# --- what the paper's risk does not bound -----------------------------------------------------------------------------


def drawn(table: JointTable, channels: Channels, rng: np.random.Generator) -> FloatArray:
    """A release of the table."""
    released = np.repeat(np.argwhere(table.array > 0), table.array[table.array > 0].astype(int), axis=0)
    for k, channel in enumerate(channels):
        kept = rng.random(len(released)) < channel.retention
        released[:, k] = np.where(kept, released[:, k], rng.integers(0, channel.size, len(released)))
    counts = np.zeros(table.sizes)
    np.add.at(counts, tuple(released.T), 1)
    return counts


def test_guessing_the_likeliest_value_hits_more_often(emgrw: JointTable) -> None:
    """At l = 2 the paper's risk is 1/2 for the worst cell; the guesser is right about 73% of all people."""
    found = solve(pose(emgrw, Fraction(1, 2), risk="reconstruction"))
    guessed = next(guesses(emgrw, found.channels, drawn(emgrw, found.channels, np.random.default_rng(1)), [300]))
    assert guessed.success == pytest.approx(0.732, abs=0.005)
    assert limit_success(emgrw) == pytest.approx(0.7415, abs=5e-5)


def test_counting_all_hits_or_beliefs_exceeds_the_limit(emgrw: JointTable) -> None:
    """At the printed point of l = 2: hits by any linked row 0.93, beliefs about a released row 0.98."""
    channels = printed(emgrw, "quasi-identifiers", 2)
    assert Link(emgrw, channels).values.max() == pytest.approx(0.9321, abs=5e-5)
    assert Posterior(emgrw, channels).values.max() == pytest.approx(0.9775, abs=5e-5)


def test_no_posterior_of_one_half_on_emgrw(emgrw: JointTable) -> None:
    """73.9% work for a private employer: no noise in the quasi-identifiers hides that."""
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(emgrw, Fraction(1, 2), risk="posterior"))
    assert error.value.least == pytest.approx(0.738877, abs=1e-6)
    assert error.value.cells.tolist() == [[-1, -1, -1, -1, 2]]


def test_posterior_limits_on_esgro(real_data: Data) -> None:
    """Occupation is at most 13.4%: 1/2 costs kappa 8.76 where the paper's risk costs 1.80."""
    table = adult(real_data, ESGR, "occupation")
    proved = [solve(pose(table, Fraction(1, n), risk="posterior")) for n in (2, 3, 5, 7)]
    costs = [found.kappa for found in proved]
    assert costs[:2] == pytest.approx([8.762421, 56.638847], abs=1e-6)
    assert len(costs) == 4
    for found, diversity in zip(proved, (2, 3, 5, 7), strict=True):
        assert Posterior(table, found.channels).values.max() <= 1 / diversity
    published = solve(pose(table, Fraction(1, 2), risk="reconstruction"))
    assert published.kappa == pytest.approx(1.799025, abs=1e-6)
    linked = solve(pose(table, Fraction(1, 2), risk="link"))
    assert published.kappa < linked.kappa == pytest.approx(3.211915, abs=1e-6)

"""Two columns with methods of their own: the sentences over all small tables and priors, and what is really drawn."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import make_policy
from tests.enumeration.bayes import belief, posteriors, statements
from tests.enumeration.folders import ALARM, chance_to_find, chi_square, columns, planned, published, stated

Cell = tuple[str, str]
ILLS, DRUGS = "uv", "xyz"
CELLS: list[Cell] = [(ill, drug) for ill in ILLS for drug in DRUGS]
SENTENCE = (
    "The sensitive columns (ill, drug) are drawn each by itself. For someone who reads one of them alone: For any "
    "statement about a record's ill: a prior belief of at most 10% stays at most 25% after seeing the release, and of "
    "at least 25% stays at least 10%. For any statement about a record's drug: seeing the release lets its odds change "
    "by at most the factor 2. Someone who reads them together can gain more where the columns of a record go together. "
    "What the others tell multiplies the factor of a statement about ill by up to 2, and of one about drug by up to 3. "
    "For any statement about a record's sensitive values, one or several: seeing the release lets its odds change by "
    "at most the factor 6; a prior belief of 10% can become 40%."
)


def asked() -> Any:
    drugs = f"sensitive; domain = {list(DRUGS)}; method = {{ name = 'subset' }}; requirement = {{ gamma = 2 }}"
    return make_policy(
        {"n": "other", "ill": f"sensitive; domain = {list(ILLS)}", "drug": drugs}, "rho1 = 0.1\nrho2 = 0.25"
    )


def content(cells: list[Cell]) -> pa.Table:
    return pa.table({"n": list(range(len(cells))), "ill": [i for i, _ in cells], "drug": [d for _, d in cells]})


@pytest.fixture(scope="module")
def law() -> dict[Cell, dict[tuple[int, int], Fraction]]:
    """Return the chance of everything published of a record, by its values, as the manifest tells the integers."""
    table = content(CELLS)
    manifest, _, _ = published(table, asked(), planned(table, asked()))
    assert manifest["guarantee"]["sentence"] == SENTENCE
    ills, drugs = columns(manifest, 0), columns(manifest, 1)
    shown = list(product(range(len(ills)), range(len(drugs))))
    return {
        (ill, drug): {(y, w): ills[y][ILLS.index(ill)] * drugs[w][DRUGS.index(drug)] for y, w in shown}
        for ill, drug in CELLS
    }


def test_nothing_but_the_data_depends_on_the_table() -> None:
    """Domains are declared: manifest and README are the same for all tables of two records."""
    tables = [content(list(cells)) for cells in product(CELLS, repeat=2)]
    assert len({stated(table, asked()) for table in tables}) == 1


def odds(share: Fraction) -> Fraction:
    return share / (1 - share)


def priors() -> list[dict[Cell, Fraction]]:
    """Return all priors in quarters over the six combinations, and one in which nearly everything is one of two."""
    found = [w for w in product(range(5), repeat=len(CELLS)) if sum(w) == 4 and max(w) < 4]
    return [{c: Fraction(w, 4) for c, w in zip(CELLS, weights, strict=True) if w} for weights in found] + [
        {a: Fraction(1, 10), b: Fraction(9, 10)} for a in CELLS for b in CELLS if a != b
    ]


def test_the_sentences_hold_for_all_priors(law: Any) -> None:
    """Any statement about both columns moves by 6 at most, one about a column alone by its factor times the other's."""
    worst: Counter[str] = Counter()
    everything = [set(chosen) for chosen in statements(CELLS)]
    alone = [{c for c in CELLS if c[k] in chosen} for k, of in ((0, ILLS), (1, DRUGS)) for chosen in statements(of)]
    for prior in priors():
        after = posteriors(prior, law.__getitem__)
        for chosen in [*alone, *everything[::5]]:
            before = belief(prior, chosen.__contains__)
            if not 0 < before < 1:
                continue
            for believed in after.values():
                now = belief(believed, chosen.__contains__)
                moved = odds(now) / odds(before)
                assert Fraction(1, 6) <= moved <= 6
                worst["any"] = max(worst["any"], moved)
                if before <= Fraction(1, 10):
                    assert now <= Fraction(2, 5)
    assert worst["any"] > 6 - Fraction(1, 10**12)  # reached


def test_one_column_keeps_its_own_promise_for_who_reads_it_alone_or_holds_the_columns_independent(law: Any) -> None:
    shares = [tuple(Fraction(w, 10) for w in ws) for ws in ((1, 9), (5, 5), (3, 7))]
    more = [tuple(Fraction(w, 10) for w in ws) for ws in ((1, 1, 8), (2, 3, 5), (9, 1, 0))]
    for (of_ill, of_drug), reads_all in product(product(shares, more), (False, True)):
        prior = {
            (i, d): p * q
            for i, p in zip(ILLS, of_ill, strict=True)
            for d, q in zip(DRUGS, of_drug, strict=True)
            if p * q
        }
        for place, limit in ((0, 3), (1, 2)):

            def seen(cell: Cell, place: int = place, all_of_it: bool = reads_all) -> dict[Any, Fraction]:
                if all_of_it:
                    return law[cell]
                margin: Counter[Any] = Counter()
                for shown, chance in law[cell].items():
                    margin[shown[place]] += chance
                return margin

            for chosen in statements((ILLS, DRUGS)[place]):
                before = belief(prior, lambda c, place=place, chosen=chosen: c[place] in chosen)
                if 0 < before < 1:
                    for believed in posteriors(prior, seen).values():
                        now = belief(believed, lambda c, place=place, chosen=chosen: c[place] in chosen)
                        assert Fraction(1, limit) <= odds(now) / odds(before) <= limit


def test_what_is_drawn_is_the_product(law: Any) -> None:
    """One release of many records with one combination: the published pairs are as likely as stated, by chi-square.

    A word that serves both columns would be found, with a chance of 1e-6 to miss it.
    """
    rows, cell = 4000, ("v", "y")
    table = content([cell] * rows)
    manifest, _, [data] = published(table, asked(), planned(table, asked()))
    values = manifest["mechanisms"][1]["domain"][0]["values"]
    cards = [
        "|".join(values[(d + s) % 3] for d in block)
        for block in manifest["mechanisms"][1]["sub_tables"][0]["deck"]["blocks"]
        for s in range(3)
    ]
    seen = Counter((ILLS.index(row["ill"]), cards.index(row["drug"])) for row in data)
    pairs = list(law[cell])
    expected = np.array([float(law[cell][pair]) * rows for pair in pairs])
    assert chi_square(expected, np.array([seen[pair] for pair in pairs]), len(pairs) - 1) > ALARM
    # one word for both: the intervals of [0, 1) that the outcomes of each column have overlap
    shared = _shared(law[cell], rows)
    assert chance_to_find(expected, np.array([shared[pair] for pair in pairs]), len(pairs) - 1) > 1 - 1e-6


def _shared(law: dict[tuple[int, int], Fraction], rows: int) -> dict[tuple[int, int], float]:
    """Return what would be expected if one word decided both columns, each by its outcomes in order."""
    margins: list[Counter[int]] = [Counter(), Counter()]
    for pair, chance in law.items():
        for margin, outcome in zip(margins, pair, strict=True):
            margin[outcome] += chance  # type: ignore[assignment]
    ends = []
    for margin in margins:
        below, found = Fraction(0), {}
        for outcome in sorted(margin):
            found[outcome] = (below, below + margin[outcome])
            below += margin[outcome]
        ends.append(found)
    return {
        (a, b): float(max(0, min(ends[0][a][1], ends[1][b][1]) - max(ends[0][a][0], ends[1][b][0]))) * rows
        for a, b in law
    }

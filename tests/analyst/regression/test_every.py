"""Every family, with the noise at every place, with every option: an answer that is the slow one's, or a refusal.

The slow one sums over every row and every true value behind it (`rowwise`). An answer is right if the equations, so
written, are solved by it, and information, noise, errors and the ends of score intervals are those of the slow sums.
What is refused has its sentence here, and nothing else is refused. Of each place and option one family is tried in
every run, the others by `pytest -m slow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.analyst.regression.answer import Regression
from sfumato.analyst.regression.solving import EDGE
from sfumato.errors import UsageError
from tests.analyst.regression.releases import people, release_of
from tests.analyst.regression.rowwise import Meaning, Row, Rowwise

FAMILIES = ("logistic", "multinomial", "linear", "poisson")
ROWS = 600


@dataclass(frozen=True)
class Said:
    """A part of a formula, and what it means of a row with true values."""

    text: str
    of: Callable[[Row], Any]


def one(condition: bool) -> float:
    return float(condition)


# --- outcomes and covariates ------------------------------------------------------------------------------------------

LUNG, SKIN = ("flu", "cold"), ("HIV", "asthma")
POINTS = "CASE WHEN diagnosis = 'flu' THEN 3 WHEN diagnosis = 'cold' THEN 1 WHEN diagnosis IS NOT NULL THEN 0 END"


def points(row: Row) -> float:
    return {"flu": 3.0, "cold": 1.0}.get(row["diagnosis"], 0.0)


Outcomes = dict[str, Said]
OF_DIAGNOSIS: Outcomes = {
    "logistic": Said("diagnosis IN ('flu', 'cold')", lambda r: one(r["diagnosis"] in LUNG)),
    "multinomial": Said(
        f"C(diagnosis, sets={{'lung': {list(LUNG)}, 'skin': {list(SKIN)}}}, others='rest')",
        lambda r: 0.0 if r["diagnosis"] in LUNG else 1.0 if r["diagnosis"] in SKIN else 2.0,
    ),
    "linear": Said(POINTS, points),
    "poisson": Said(POINTS, points),
}
OF_GRADE: Outcomes = {
    "logistic": Said("grade == '3'", lambda r: one(r["grade"] == "3")),
    "multinomial": Said("C(grade)", lambda r: float(r["grade"]) - 1),
    "linear": Said("CAST(grade AS DOUBLE)", lambda r: float(r["grade"])),
    "poisson": Said("CAST(grade AS DOUBLE)", lambda r: float(r["grade"])),
}
COAST = "CASE region WHEN 'S' THEN 2 WHEN 'W' THEN 1 ELSE 0 END"


def coast(row: Row) -> float:
    return {"S": 2.0, "W": 1.0}.get(row["region"], 0.0)


OF_REGION: Outcomes = {
    "logistic": Said("region == 'S'", lambda r: one(r["region"] == "S")),
    "multinomial": Said("C(region, reference='N')", lambda r: {"N": 0.0, "S": 1.0, "W": 2.0}[r["region"]]),
    "linear": Said(COAST, coast),
    "poisson": Said(COAST, coast),
}
OF_STAY: Outcomes = {
    "logistic": Said("stay > 3", lambda r: one(r["stay"] > 3)),
    "multinomial": Said(
        "CASE WHEN stay < 2 THEN 'a' WHEN stay < 5 THEN 'b' ELSE 'c' END",
        lambda r: 0.0 if r["stay"] < 2 else 1.0 if r["stay"] < 5 else 2.0,
    ),
    "linear": Said("stay", lambda r: float(r["stay"])),
    "poisson": Said("stay", lambda r: float(r["stay"])),
}
AGE = Said("I(age / 10)", lambda r: [r["age"] / 10])
SEX = Said("sex", lambda r: [one(r["sex"] == "M")])
REGION = Said("C(region)", lambda r: [one(r["region"] == "S"), one(r["region"] == "W")])
LUNGS = Said(f"C(diagnosis, sets={{'lung': {list(LUNG)}}}, others='rest')", lambda r: [one(r["diagnosis"] not in LUNG)])
GRADE = Said("C(grade == '3')", lambda r: [one(r["grade"] == "3")])


def product_of(a: Said, b: Said) -> Said:
    """Return a:b; the levels of the second run fastest."""
    return Said(f"{a.text}:{b.text}", lambda r: [x * y for x in a.of(r) for y in b.of(r)])


# --- places of the noise ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """How a table is published, and what is asked of it."""

    kind: str
    outcome: Outcomes
    covariates: tuple[Said, Said]
    requirement: str = ""
    missing: bool = False
    rows: int = ROWS
    no_likelihood: str = ""  # why there is none; of numbers there is none in any case
    hidden: tuple[str, str] = ("diagnosis", "gout")  # a randomized column, and one of its values

    def release(self, folder: Path) -> sf.Release:
        """Publish the table."""
        rows = people(self.rows, missing=self.missing)
        grade = rows["grade"].to_numpy(zero_copy_only=False)
        mixed = np.where(np.arange(self.rows) % 2 == 0, np.roll(grade, 7), grade)  # each grade with each diagnosis
        rows = rows.set_column(rows.column_names.index("grade"), "grade", pa.array(mixed.tolist()))
        return release_of(self.kind, folder, rows, requirement=self.requirement)


COVARIATE, SUB_TABLES, GROUPS = "of a randomized covariate", "of a release by sub-tables", "of a release by buckets"
OF_ROWS = (AGE, SEX)
MILD = "gamma = 60"
FINE = "rho1 = 0.2\nrho2 = 0.9\n[[requirement.values]]\nvalue = 'flu'\nrho1 = 0.2\nrho2 = 0.7"
PLACES: dict[str, Place] = {
    "outcome": Place("uniform", OF_DIAGNOSIS, OF_ROWS, MILD),
    "covariate": Place("uniform", OF_STAY, (LUNGS, AGE), MILD, no_likelihood=COVARIATE),
    "outcome, fine-grain": Place("fine-grain", OF_DIAGNOSIS, OF_ROWS, FINE, no_likelihood="of this outcome"),
    "covariate, fine-grain": Place("fine-grain", OF_STAY, (LUNGS, AGE), FINE, no_likelihood=COVARIATE),
    "both": Place("several", OF_GRADE, (LUNGS, AGE), MILD, no_likelihood=COVARIATE),
    "several covariates": Place("several", OF_STAY, (LUNGS, GRADE), MILD, no_likelihood=COVARIATE),
    "compound, outcome": Place("compound", OF_GRADE, OF_ROWS, MILD),
    "compound, both": Place("compound", OF_GRADE, (LUNGS, AGE), "gamma = 120", no_likelihood=COVARIATE),
    "outcome in sub-tables": Place("small-domain", OF_DIAGNOSIS, OF_ROWS, no_likelihood=SUB_TABLES),
    "covariate in sub-tables": Place("small-domain", OF_STAY, (LUNGS, AGE), no_likelihood=SUB_TABLES),
    "outcome in sets": Place("subset", OF_DIAGNOSIS, OF_ROWS, MILD),
    "covariate in sets": Place("subset", OF_STAY, (LUNGS, AGE), MILD, no_likelihood=COVARIATE),
    "outcome in groups": Place("anatomy", OF_DIAGNOSIS, OF_ROWS, no_likelihood=GROUPS),
    "covariate in groups": Place("anatomy", OF_STAY, (LUNGS, AGE), no_likelihood=GROUPS),
    "quasi-identifiers": Place(
        "response", OF_STAY, (REGION, AGE), rows=2_000, no_likelihood=COVARIATE, hidden=("region", "N")
    ),
    "quasi-identifier as outcome": Place("response", OF_REGION, OF_ROWS, rows=2_000, hidden=("region", "N")),
    "missing outcomes": Place(
        "uniform", OF_DIAGNOSIS, (AGE, REGION), MILD, missing=True, no_likelihood="of an outcome with missing values"
    ),
    "missing covariates": Place("uniform", OF_STAY, (LUNGS, REGION), MILD, missing=True, no_likelihood=COVARIATE),
}


# --- options ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """What else is asked: arguments of `regress`, and what they mean."""

    asked: Callable[[Place], Row] = lambda place: {}
    meant: Callable[[Place, Meaning], Meaning] = lambda place, meaning: meaning
    product: bool = False
    refused: dict[str, str] = field(default_factory=dict)  # by the kind of the release


def where_hidden(place: Place, meaning: Meaning) -> Meaning:
    column, value = place.hidden
    return replace(meaning, used=lambda r: r["age"] > 30 or r[column] != value)


def offset_hidden(place: Place, meaning: Meaning) -> Meaning:
    column, value = place.hidden
    return replace(meaning, offset=lambda r: 0.5 * one(r[column] == value))


NO_CLUSTERS = {"anatomy": "Clusters are not possible in a release by groups"}
NO_STRATA = {"anatomy": "Survey strata are not possible in a release by groups"}
POPULATION = {"target": "population"}
OPTIONS: dict[str, Option] = {
    "nothing": Option(),
    "population": Option(lambda _: POPULATION),
    "weights": Option(lambda _: {"weights": "weight"}, lambda _, m: replace(m, weight="weight")),
    "clusters": Option(
        lambda _: {"cluster": "person", **POPULATION}, lambda _, m: replace(m, cluster="person"), refused=NO_CLUSTERS
    ),
    "survey strata": Option(
        lambda _: {"survey_strata": "weight", **POPULATION},
        lambda _, m: replace(m, stratum="weight"),
        refused=NO_STRATA,
    ),
    "weights, clusters, strata": Option(
        lambda _: {"weights": "weight", "cluster": "person", "survey_strata": "weight", **POPULATION},
        lambda _, m: replace(m, weight="weight", cluster="person", stratum="weight"),
        refused=NO_CLUSTERS,
    ),
    "offset": Option(
        lambda _: {"offset": "log(weight)"}, lambda _, m: replace(m, offset=lambda r: np.log(r["weight"]))
    ),
    "hidden offset": Option(
        lambda p: {"offset": f"CASE WHEN {p.hidden[0]} = '{p.hidden[1]}' THEN 0.5 ELSE 0 END"}, offset_hidden
    ),
    "where": Option(lambda _: {"where": "age > 30"}, lambda _, m: replace(m, used=lambda r: r["age"] > 30)),
    "hidden where": Option(lambda p: {"where": f"age > 30 OR {p.hidden[0]} <> '{p.hidden[1]}'"}, where_hidden),
    "interaction": Option(product=True),
    "score": Option(lambda _: {"interval": "score"}),
    "score, population": Option(lambda _: {"interval": "score", **POPULATION}),
    "likelihood": Option(lambda _: {"method": "likelihood", **POPULATION}),
}


@dataclass(frozen=True)
class Case:
    """A family, a place and an option."""

    family: str
    place: Place
    option: Option

    @property
    def terms(self) -> tuple[Said, ...]:
        first, second = self.place.covariates
        return (first, second, product_of(first, second)) if self.option.product else (first, second)

    @property
    def formula(self) -> str:
        return f"{self.place.outcome[self.family].text} ~ {' + '.join(term.text for term in self.terms)}"

    @property
    def meaning(self) -> Meaning:
        """What is asked, for the slow one; rows without an untouched value are left out."""
        untouched = [name for name in ("region",) if self.place.missing and "region" in self.formula]
        terms = self.terms
        meaning = Meaning(
            self.family, lambda r: [1.0, *(x for term in terms for x in term.of(r))], self.place.outcome[self.family].of
        )
        meaning = self.option.meant(self.place, meaning)
        chosen = meaning.used
        return replace(meaning, used=lambda r: chosen(r) and all(r[name] is not None for name in untouched))

    @property
    def refusal(self) -> str:
        """The sentence with which it is refused, or nothing."""
        if said := self.option.refused.get(self.place.kind):
            return said
        if self.option is not OPTIONS["likelihood"]:
            return ""
        why = self.place.no_likelihood
        if self.family in ("linear", "poisson") and why not in (COVARIATE, SUB_TABLES, GROUPS):
            why = f"of a randomized outcome of family '{self.family}'"
        return f"There is no likelihood {why}" if why else ""


def cases() -> Iterator[Any]:
    """Give all cases; 63 of them in every run, with each family in each place and with each option."""
    for i, place in enumerate(PLACES):
        for j, option in enumerate(OPTIONS):
            for k, family in enumerate(FAMILIES):
                marks = () if (i + 5 * j + 4 * k) % 16 == 0 else (pytest.mark.slow,)
                yield pytest.param(
                    Case(family, PLACES[place], OPTIONS[option]), marks=marks, id=f"{place}-{option}-{family}"
                )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Place], sf.Release]:
    """Give the release of a place, made once."""
    made: dict[tuple[Any, ...], sf.Release] = {}

    def give(place: Place) -> sf.Release:
        key = (place.kind, place.requirement, place.missing)
        if key not in made:
            made[key] = place.release(tmp_path_factory.mktemp("every"))
        return made[key]

    return give


@pytest.mark.parametrize("case", list(cases()))
def test_every_case_is_answered_or_refused(case: Case, published: Callable[[Place], sf.Release]) -> None:
    release, asked = published(case.place), {"interval": "wald", **case.option.asked(case.place)}
    if case.refusal:
        with pytest.raises(UsageError, match=case.refusal) as told:
            release.regress(case.formula, case.family, **asked)
        assert told.value.hint
        return
    found = release.regress(case.formula, case.family, **asked)
    slow = Rowwise.of(release, case.meaning)
    check = assert_likelihood if found.fit.method == "likelihood" else assert_inverse
    check(found, slow)


# --- is it right? -----------------------------------------------------------------------------------------------------


def assert_inverse(found: Regression, slow: Rowwise) -> None:
    """The equations are solved; information, noise and errors are the slow ones.

    A level without corrected events has an infinite coefficient, and a note; all others solve their equations with it
    at the edge.
    """
    fit, free = found.fit, np.isfinite(found.coefficients)
    assert sum("infinity" in note for note in found.notes) == (~free).sum()
    beta = np.where(free, found.coefficients, EDGE * np.sign(found.coefficients))
    inverse = np.linalg.inv(slow.information(beta)[np.ix_(free, free)])
    meats = dict(zip(("table", "population"), slow.noise(beta), strict=True))
    errors = np.sqrt(np.diag(inverse @ meats["population"][np.ix_(free, free)] @ inverse))
    assert np.abs(inverse @ slow.score(beta)[free] / errors).max() < 1e-7
    np.testing.assert_allclose(
        fit.information, slow.information(beta), rtol=1e-8, atol=1e-8 * np.abs(fit.information).max()
    )
    scale = np.outer(*2 * [np.sqrt(np.diag(meats["population"]))])[np.ix_(free, free)]
    for target, meat in meats.items():
        noise = fit.solution.noise.of(target)[np.ix_(free, free)] / scale
        np.testing.assert_allclose(noise, meat[np.ix_(free, free)] / scale, rtol=1e-7, atol=1e-8)
    covariance = inverse @ meats[found.target][np.ix_(free, free)] @ inverse
    if np.linalg.eigvalsh(covariance).min() > 0 and not slow.compositions.size:
        np.testing.assert_allclose(found.standard_errors[free], np.sqrt(np.diag(covariance)), rtol=1e-6)
    if found.intervals == "score" and free.all():
        assert_ends(found, slow)


def assert_ends(found: Regression, slow: Rowwise) -> None:
    """At the ends of a score interval T is +-1.96."""
    z = 1.959963984540054
    for j, ends in enumerate(found.ends):
        for end in ends[np.isfinite(ends)]:
            start = found.coefficients + (end - found.coefficients[j]) * slow.direction(found.coefficients, j)
            assert abs(slow.statistic(start, j, found.target)) == pytest.approx(z, rel=1e-4)


def assert_likelihood(found: Regression, slow: Rowwise) -> None:
    """No direction raises the likelihood, and errors are those of its second differences."""
    beta, step = found.coefficients, 1e-3 * np.diag(found.standard_errors)
    at = slow.log_likelihood
    slope = np.array([at(beta + e) - at(beta - e) for e in step])
    assert np.abs(slope).max() < 1e-6 * abs(at(beta)) ** 0.5
    curve = [[at(beta + a + b) - at(beta + a - b) - at(beta - a + b) + at(beta - a - b) for a in step] for b in step]
    expected = np.sqrt(np.diag(np.linalg.inv(-np.array(curve) / 4))) * np.diag(step)
    np.testing.assert_allclose(found.standard_errors, expected, rtol=1e-3)

"""Errors and intervals over many releases: each family, each place of the noise, both targets.

A table is drawn from a population, and a release from the table. beta_hat - beta_T (the coefficients of the table) and
beta_hat - beta_0 (those of the population) are looked at in units of their estimated covariances:

    spread  sum over releases of d'Cov^-1 d      chi-square with (coefficients x releases) degrees of freedom
    centre  releases * mean(d)'Cov^-1 mean(d)    chi-square with as many as there are coefficients

A test fails by chance in 1 of 1,000. Planted errors of 15%, of standard errors or of coefficients, must fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.stats import chi2

from sfumato.analyst.regression.families import Logistic
from sfumato.analyst.regression.fit import fit
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.solution import solve
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.studies import FAMILIES, PLACES, Study, covariate
from tests.conftest import slow

CHANCE = 1e-3
ENOUGH = 1000
"""Releases times coefficients: so many tell an error of 15% from chance."""


@dataclass
class Seen:
    """Errors of the coefficients over releases, (releases, q), and their covariances."""

    off: dict[Target, FloatArray]
    covariance: dict[Target, FloatArray]
    truth: FloatArray

    def _seen_by(self, target: Target) -> tuple[FloatArray, FloatArray]:
        """Return errors and covariances in the directions that have at least a hundredth of the population's variance.

        Given the table some combinations of coefficients have next to no noise; what is left is of second order.
        """
        mean = self.covariance["population"].mean(axis=0)
        values, vectors = eigh(self.covariance[target].mean(axis=0), mean)
        along = vectors[:, values > Study.least_noise]
        return self.off[target] @ along, along.T @ self.covariance[target] @ along

    def p_values(self, target: Target) -> tuple[float, float]:
        """Return those of the spread and of the centre."""
        off, covariance = self._seen_by(target)
        spread = np.einsum("ri,rij,rj->", off, np.linalg.inv(covariance), off)
        tails = chi2.cdf(spread, off.size), chi2.sf(spread, off.size)
        mean = off.mean(axis=0)
        centre = len(off) * mean @ np.linalg.solve(covariance.mean(axis=0), mean)
        return 2 * min(map(float, tails)), float(chi2.sf(centre, mean.size))


def seen(study: Study, releases: int) -> Seen:
    """Fit many releases."""
    random, model = np.random.default_rng(21), study.model
    truth = solve(model.truth(study.chances * study.rows)).best.beta
    targets: tuple[Target, ...] = ("table", "population")
    off, covariance = ({target: [] for target in targets} for _ in range(2))  # type: ignore[var-annotated]
    for _ in range(releases):
        table = study.table(random)
        own = solve(model.truth(table)).best.beta
        found = solve(study.release(random, table))
        for target, right in zip(targets, (own, truth), strict=True):
            off[target].append(found.best.beta - right)
            covariance[target].append(found.covariance.of(target))
    arrays = ({t: np.array(v) for t, v in values.items()} for values in (off, covariance))
    return Seen(*arrays, truth)


RANDOMIZED = [place for place in PLACES if "groups" not in place]
"""Tables that are dealt to groups are small; `test_bands` has them, too."""


@pytest.mark.parametrize("releases", [None, slow(1000)], ids=["enough", "many"])
@pytest.mark.parametrize("place", RANDOMIZED)
@pytest.mark.parametrize("family", FAMILIES)
def test_errors(family: str, place: str, releases: int | None) -> None:
    """Spread and centre are as said, for both targets; errors that are 15% too small are found."""
    study = PLACES[place](FAMILIES[family])
    size = study.model.design.shape[2] * study.model.family.equations
    found = seen(study, releases or ENOUGH // size)
    for target in ("table", "population"):
        spread, centre = found.p_values(target)
        assert spread > CHANCE
        assert centre > CHANCE
        small = replace(found, covariance={t: c / 1.15**2 for t, c in found.covariance.items()})
        assert small.p_values(target)[0] < CHANCE


@pytest.mark.parametrize("place", RANDOMIZED)
def test_a_coefficient_that_is_off(place: str) -> None:
    """One that is 15% too large is found in the centre."""
    found = seen(PLACES[place](Logistic()), 100)
    largest = int(np.argmax(np.abs(found.truth) / np.sqrt(np.diag(found.covariance["table"].mean(axis=0)))))
    shift = np.zeros_like(found.truth)
    shift[largest] = 0.15 * found.truth[largest]
    moved = replace(found, off={target: off + shift for target, off in found.off.items()})
    assert moved.p_values("table")[1] < CHANCE


@pytest.mark.parametrize("releases", [60, slow(1000)])
@pytest.mark.parametrize("target", ["table", "population"])
def test_score_intervals_cover(target: Target, releases: int) -> None:
    """Of 95% intervals 95% cover, also where few rows tell of a level."""
    study, random = replace(covariate(Logistic()), rows=1500), np.random.default_rng(22)
    model = replace(study.model, indicator=(False, False, True, True))
    truth = solve(model.truth(study.chances * study.rows)).best.beta
    covered = []
    for _ in range(releases):
        table = study.table(random)
        right = truth if target == "population" else solve(model.truth(table)).best.beta
        low, high = fit(model.source(model.published(random, table))).interval(target).T
        covered.append((low <= right) & (right <= high))
    assert abs(np.mean(covered) - 0.95) < 4 * np.sqrt(0.05 * 0.95 / len(covered) / 2)  # coefficients go together

"""Populations to draw tables and releases from: each family, each place of the noise, each way to publish.

A study has patterns of untouched columns and the chance of each pattern and true state. The model need not be right:
coefficients of the table, and of the population, are the roots of their equations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from sfumato.analyst.regression.buckets import classical_weights, dealt_weights
from sfumato.analyst.regression.families import Family, Linear, Logistic, Multinomial, Poisson
from sfumato.analyst.regression.problem import Buckets, Cells
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.made import Model, uniform
from tests.analyst.regression.whole import Whole

W = np.array([-1.5, -0.5, 0.5, 1.5])
FINE = np.array([[0.75, 0.1, 0.1], [0.1, 0.65, 0.15], [0.15, 0.25, 0.75]])
HIDDEN = {
    "logistic": [0.0, 1, 1],
    "multinomial": [0.0, 1, 2],
    "linear": [0.0, 1, 4],
    "poisson": [0.0, 1, 3],
}
"""What a hidden outcome of three values means to a family."""
UNTOUCHED = {
    "logistic": [0.0, 1],
    "multinomial": [0.0, 1, 2],
    "linear": [-1.0, 0, 2],
    "poisson": [0.0, 1, 2, 4],
}
"""The values of an outcome that is published as it is."""


@dataclass
class Study:
    """A model, and the chance of each pattern and state in the population, (G, K)."""

    model: Model
    chances: FloatArray
    rows: int
    least_noise = 0.01
    """Of the population's variance: below it what the noise leaves of a coefficient of the table is of second order."""

    def table(self, random: np.random.Generator) -> FloatArray:
        """Return a sample of the population, counted by pattern and state."""
        return random.multinomial(self.rows, self.chances.ravel()).reshape(self.chances.shape).astype(float)

    def release(self, random: np.random.Generator, table: FloatArray) -> Whole:
        """Return a release of a table."""
        return self.model.source(self.model.published(random, table))


# --- where the noise is -----------------------------------------------------------------------------------------------


def outcome(family: Family) -> Study:
    """Return a study with a randomized outcome of three."""
    design = np.stack([np.ones(4), W], axis=-1)[:, None]
    odds = np.exp(np.stack([0 * W, 0.3 + 0.4 * W, -0.2 - 0.3 * W], axis=1))
    chances = odds / odds.sum(axis=1, keepdims=True) / 4
    return Study(Model(family, design, np.array([HIDDEN[family.name]]), FINE), chances, 30_000)


def covariate(family: Family) -> Study:
    """Return a study with a randomized covariate of three, and an untouched outcome."""
    ys = UNTOUCHED[family.name]
    pairs = [(w, y) for w in W for y in ys]
    level = np.eye(3)[:, 1:]
    design = np.array([[[1, w, *level[k]] for k in range(3)] for w, _ in pairs])
    weight = np.array(
        [[np.exp(-0.1 * y + y * (0.3 * w + [0, 0.3, -0.3][k]) / max(ys)) for k in range(3)] for w, y in pairs]
    )
    outcomes = np.array([[y] for _, y in pairs])
    return Study(Model(family, design, outcomes, FINE), weight / weight.sum(), 60_000)


def both(family: Family) -> Study:
    """Return a study with a covariate of two and an outcome of three randomized by themselves: six states."""
    states = [(x, y) for x in range(2) for y in range(3)]
    design = np.array([[[1, w, x] for x, _ in states] for w in W])
    chances = np.array([[np.exp(y * (0.2 * w + 0.3 * x - 0.2) - 0.2 * x) for x, y in states] for w in W])
    numbers = np.array([[HIDDEN[family.name][y] for _, y in states]])
    return Study(Model(family, design, numbers, np.kron(uniform(2, 0.7), FINE)), chances / chances.sum(), 75_000)


def compound(family: Family) -> Study:
    """Return the same, the six combinations randomized by one matrix."""
    study = both(family)
    return replace(study, model=replace(study.model, P=uniform(6, 0.5)))


def several(family: Family) -> Study:
    """Return a study with two covariates, of three and of two, randomized by themselves."""
    ys = UNTOUCHED[family.name]
    pairs, states = [(w, y) for w in W[[0, 3]] for y in ys], [(k, x) for k in range(3) for x in range(2)]
    design = np.array([[[1, w, k == 1, k == 2, x] for k, x in states] for w, _ in pairs], dtype=float)
    weight = np.array(
        [
            [np.exp(y * (0.2 * w + [0, 0.3, -0.3][k] + 0.3 * x - 0.2) / max(ys) + 0.2 * k * x) for k, x in states]
            for w, y in pairs
        ]
    )
    outcomes = np.array([[y] for _, y in pairs])
    return Study(Model(family, design, outcomes, np.kron(FINE, uniform(2, 0.7))), weight / weight.sum(), 75_000)


# --- how it is published ----------------------------------------------------------------------------------------------


def in_sub_tables(study: Study) -> Study:
    """Return a study of three states published by three sub-tables of two values each.

    Which one a record goes to depends on its value; the weights are those of the sub-table's own matrix.
    """
    shares = {(0, 1): [0.7, 0.4, 0], (1, 2): [0, 0.6, 0.5], (0, 2): [0.3, 0, 0.5]}
    matrix = uniform(2, 0.6)
    P, inverse, shown = np.zeros((6, 3)), np.zeros((3, 6)), np.zeros((6, 3))
    for number, (values, share) in enumerate(shares.items()):
        outputs = np.arange(2) + 2 * number
        P[np.ix_(outputs, values)] = matrix * np.array(share)[list(values)]
        inverse[np.ix_(values, outputs)] = np.linalg.inv(matrix)
        shown[outputs, values] = 1
    return replace(study, model=replace(study.model, P=P, inverse=inverse, shown=shown))


def in_sets(study: Study) -> Study:
    """Return a study of three states published as cards of two values of four, the last of which no record has.

    A card with the true value is three times as likely as one without. B = (P'D^-1 P)^-1 P'D^-1, D the outputs' mean.
    """
    cards = [set(card) for card in combinations(range(4), 2)]
    P = np.array([[3.0 if k in card else 1.0 for k in range(3)] for card in cards])
    P /= P.sum(axis=0)
    weighted = P.T / P.mean(axis=1)
    shown = np.array([[float(k in card) for k in range(3)] for card in cards])
    shown /= shown.sum(axis=1, keepdims=True)
    inverse = np.linalg.solve(weighted @ P, weighted)
    return replace(study, model=replace(study.model, P=P, inverse=inverse, shown=shown))


@dataclass
class DealtStudy(Study):
    """A study published by buckets of three records; which values a bucket has is told, whose they are is not."""

    least_noise = 0.2
    """Below it the noise is a small difference of large sums: intervals are rather too wide than too narrow."""

    def release(self, random: np.random.Generator, table: FloatArray) -> Whole:
        """Return a release: each value's records are put on its places in random order."""
        pattern, state = (np.repeat(each, table.ravel().astype(int)) for each in np.indices(table.shape).reshape(2, -1))
        places = np.random.default_rng(5).permutation(np.sort(state))  # depends on how often there are values alone
        of_value = np.argsort(places, kind="stable")
        records = np.lexsort((random.random(state.size), state))
        bucket = np.empty(state.size, dtype=np.int64)
        bucket[records] = of_value // 3
        compositions = np.zeros((state.size // 3, table.shape[1]))
        np.add.at(compositions, (np.arange(state.size) // 3, places), 1)
        buckets = Buckets(compositions, tuple("abcdef"[: table.shape[1]]))
        cells = Cells(
            weights=dealt_weights(buckets)[bucket],
            design=self.model.design,
            outcome=self.model.outcome,
            count=np.ones(state.size),
            squares=np.ones(state.size),
            pattern=pattern,
            naive=classical_weights(buckets)[bucket],
            group=bucket,
        )
        plain = self.model.truth(table)
        return Whole(plain.names, plain.indicator, plain.family, cells, buckets)


def in_groups(study: Study) -> Study:
    """Return a study published by buckets."""
    return DealtStudy(study.model, study.chances, 2_400)


PLACES: dict[str, Callable[[Family], Study]] = {
    "outcome": outcome,
    "covariate": covariate,
    "both": both,
    "compound": compound,
    "several": several,
    "outcome in sub-tables": lambda family: in_sub_tables(outcome(family)),
    "covariate in sub-tables": lambda family: in_sub_tables(covariate(family)),
    "outcome in sets": lambda family: in_sets(outcome(family)),
    "covariate in sets": lambda family: in_sets(covariate(family)),
    "outcome in groups": lambda family: in_groups(outcome(family)),
    "covariate in groups": lambda family: in_groups(covariate(family)),
}
FAMILIES: dict[str, Family] = {
    family.name: family for family in (Logistic(), Multinomial(("a", "b", "c")), Linear(), Poisson())
}

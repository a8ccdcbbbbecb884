"""What can be asked of a fitted model: tests of coefficients, comparison with another one, effects in plain units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.regression.comparison import (
    Test,
    compare,
    information_criterion,
    score_test,
    two_sided,
    wald_test,
)
from sfumato.analyst.regression.effects import Effects, average_slopes, standardised
from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.factors import Known
from sfumato.analyst.regression.families import Linear, Multinomial, Poisson
from sfumato.analyst.regression.fitted import Fitted
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.reading import Settings
from sfumato.analyst.regression.score_intervals import quick_statistic
from sfumato.errors import CannotMeet, UsageError
from sfumato.show.layout import percent
from sfumato.show.plots import error_bars
from sfumato.show.results import Drawn
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import label
from sfumato.values.text import meant


def p_values(answer: Fitted) -> FloatArray:
    """Return the p-value of each coefficient: by the score test where intervals are by the score, else Wald's."""
    by_score = answer.intervals == "score" and answer.fit.method == "inverse"
    found = np.full(answer.coefficients.size, math.nan)
    for place, (name, estimate, error) in enumerate(
        zip(answer.terms, answer.coefficients, answer.standard_errors, strict=True)
    ):
        if not math.isfinite(estimate) or not error > 0:
            continue
        found[place] = two_sided(float(estimate) / float(error))
        if by_score:
            with suppress(CannotMeet):  # with this coefficient held at 0 the others may have no solution
                found[place] = _score_p_value(answer, place, name, float(error))
    return found


def _score_p_value(answer: Fitted, place: int, name: str, error: float) -> float:
    """Return the p-value of the score test that a coefficient is 0."""
    solution = answer.fit.solution
    statistic = quick_statistic(solution.equations, solution.best, place, answer.target, 0.0, error)
    return score_test(answer.fit, [name], answer.target).p_value if statistic is None else two_sided(statistic)


def tested(answer: Fitted, terms: Sequence[str]) -> Test:
    """Test that coefficients are all 0: by the score, or by their errors."""
    if not terms:
        terms = tuple(name for name in answer.terms if not name.endswith("intercept"))
    names = [answer.terms[place] for place in answer.places(terms)]
    if answer.intervals == "score" and answer.fit.method == "inverse":
        return score_test(answer.fit, names, answer.target)
    return wald_test(answer.fit, names, answer.target)


@dataclass(frozen=True)
class Compared:
    """Two models of the same outcome: the smaller criterion is the better one; a test where one holds the other."""

    formulas: tuple[str, str]
    criteria: tuple[float, float]
    target: Target
    test: Test | None

    @property
    def better(self) -> str:
        """The formula with the smaller criterion."""
        return self.formulas[int(self.criteria[1] < self.criteria[0])]

    def __repr__(self) -> str:
        lines = [
            f"{formula}: {criterion:,.1f}" for formula, criterion in zip(self.formulas, self.criteria, strict=True)
        ]
        tested = [f"{self.test.name}: {self.test.statistic:,.2f}, p = {self.test.p_value:.3g}"] if self.test else []
        return "\n".join([f"Compared(information criterion, {self.target}; smaller is better)", *lines, *tested])


def compared(answer: Fitted, other: Fitted) -> Compared:
    """Compare two models by their information criteria, and by a test if one holds all terms of the other."""
    _require_same(answer, other)
    criteria = [information_criterion(each.fit, answer.target) for each in (answer, other)]
    test = None
    for larger, smaller in ((answer, other), (other, answer)):
        if set(smaller.terms) < set(larger.terms):
            test = compare(larger.fit, smaller.fit, answer.target)
    formulas = (answer.model.formula.text, other.model.formula.text)
    return Compared(formulas, (criteria[0], criteria[1]), answer.target, test)


def _require_same(answer: Fitted, other: Fitted) -> None:
    for what, own, its in (
        ("outcome", answer.model.outcome.text, other.model.outcome.text),
        ("family", answer.model.family.name, other.model.family.name),
        ("method", answer.fit.method, other.fit.method),
        ("target", answer.target, other.target),
    ):
        if own != its:
            raise UsageError(f"The models have not the same {what}: {own} and {its}.", "Fit both in the same way.")
    if not math.isclose(answer.fit.used, other.fit.used, rel_tol=1e-9):
        raise UsageError(
            f"The models are of different rows, {answer.fit.used:,.1f} and {other.fit.used:,.1f} after correction: "
            "records with missing values are left out of one of them.",
            "Choose the same records by a condition, e.g. region IS NOT NULL.",
        )


# --- effects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class EffectsTable(Drawn):
    """Means of the outcome that a model implies, their differences, and average slopes, with intervals."""

    rows: tuple[dict[str, Any], ...]
    target: Target
    level: float
    outcome: str

    def to_arrow(self) -> Any:
        """Return a row for each figure."""
        return pa.Table.from_pylist(list(self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures with stable keys (docs/reference/json.md)."""
        return {"outcome": self.outcome, "target": self.target, "level": self.level, "effects": list(self.rows)}

    def _drawing(self, title: str) -> dict[str, Any]:
        named = self.to_arrow()
        by = [name for name in ("class", "of", "value") if name in named.column_names]
        about = f"{percent(self.level)} intervals for the {self.target}"
        return error_bars(named, by, title or f"Effects on {self.outcome}", about, self.level)

    def __repr__(self) -> str:
        lines = [
            f"{' '.join(filter(None, (row.get('class'), row['of'], row['value'])))} ({row['figure']}): "
            f"{row['estimate']:.4g} ± {row['standard_error']:.4g} [{row['lower']:.4g}, {row['upper']:.4g}]"
            for row in self.rows
        ]
        return "\n".join([f"Effects({self.outcome}, {self.target}, {self.level:.0%})", *lines])


def effects(answer: Fitted, factors: Sequence[str]) -> EffectsTable:
    """Return effects of some factors of the formula, of all without a name."""
    model = answer.model
    if unknown := next((name for name in factors if name not in model.covariates), None):
        raise UsageError(f"The formula has no factor {unknown!r}.", meant(unknown, list(model.covariates), "It has"))
    chosen = [model.covariates[name] for name in (factors or model.covariates)]
    rows: list[dict[str, Any]] = []
    for known in chosen:
        rows += _slopes(answer, known) if known.levels is None else _settings(answer, known)
    return EffectsTable(tuple(rows), answer.target, answer.level, model.outcome.text)


def _settings(answer: Fitted, known: Known) -> Iterator[dict[str, Any]]:
    """Yield the mean outcome at each level, and its difference from that at the reference."""
    assert known.levels is not None
    size, classes = len(known.levels), _classes(answer)
    found = standardised(_asked(answer, Settings(values=tuple((known.text, float(k)) for k in range(size)))).fit)
    means = _with_base(answer, found, size)
    across = np.kron(np.eye(size), np.eye(len(classes)))
    reference = across.reshape(size, len(classes), -1)[known.reference]
    differences = means.contrasted((across.reshape(size, len(classes), -1) - reference).reshape(across.shape))
    for place, level in enumerate(known.levels):
        for number, name in enumerate(classes):
            own = {"of": known.factor.name or known.text, "value": label(level), **({"class": name} if name else {})}
            k = place * len(classes) + number
            yield _row(own, _mean_name(answer), means, k, answer)
            if place != known.reference:
                yield _row(own, f"difference from {label(known.levels[known.reference])}", differences, k, answer)


def _slopes(answer: Fitted, known: Known) -> Iterator[dict[str, Any]]:
    """Yield the average slope of a number; its column must be in no other factor."""
    others = [k for k in answer.model.covariates.values() if k is not known and k.factor.columns & known.factor.columns]
    if others:
        raise UsageError(
            f"{known.text} has no slope of its own: {others[0].text} looks at the same column, and moves with it.",
            "Ask for the effects of other factors, or take one function of the column into the formula.",
        )
    found = _with_base(answer, average_slopes(_asked(answer, Settings(slopes=(known.text,))).fit), 1, total=0.0)
    for number, name in enumerate(_classes(answer)):
        own = {"of": known.text, "value": "", **({"class": name} if name else {})}
        yield _row(own, "average slope", found, number, answer)


def _asked(answer: Fitted, settings: Settings) -> Fitted:
    """Return the fit with cells that have the designs of these settings; it is not solved anew."""
    source = answer.source.asked(settings)
    solution = replace(answer.fit.solution, equations=Equations(source))
    return replace(answer, source=source, fit=replace(answer.fit, solution=solution))


def _classes(answer: Fitted) -> list[str]:
    family = answer.model.family
    return list(family.classes) if isinstance(family, Multinomial) else [""]


def _with_base(answer: Fitted, found: Effects, settings: int, total: float = 1.0) -> Effects:
    """Return the values of all classes of each setting; those of the base class are what is left of the total."""
    family = answer.model.family
    if not isinstance(family, Multinomial):
        return found
    own = np.vstack([-np.ones(family.equations), np.eye(family.equations)])
    whole = found.contrasted(np.asarray(np.kron(np.eye(settings), own), dtype=np.float64))
    base = np.tile(np.eye(1, family.equations + 1).ravel(), settings)
    return replace(whole, values=whole.values + total * base)


def _mean_name(answer: Fitted) -> str:
    family = answer.model.family
    return "mean" if isinstance(family, Linear) else "mean count" if isinstance(family, Poisson) else "risk"


def _row(own: dict[str, Any], figure: str, found: Effects, place: int, answer: Fitted) -> dict[str, Any]:
    estimate, error = float(found.values[place]), float(found.standard_errors(answer.target)[place])
    margin = NormalDist().inv_cdf((1 + answer.level) / 2) * error
    numbers = {"estimate": estimate, "standard_error": error, "lower": estimate - margin, "upper": estimate + margin}
    return {**own, "figure": figure, **numbers}

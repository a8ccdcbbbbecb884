"""A fitted model as people read it: coefficients, ratios, errors, intervals, and the naive fit beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.regression.families import Family, Linear, Multinomial, Poisson
from sfumato.analyst.regression.model import Model
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.result import Fit, Intervals
from sfumato.errors import UsageError
from sfumato.show.layout import percent
from sfumato.show.results import Drawn
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.text import meant, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.analyst.regression.comparison import Test
    from sfumato.analyst.regression.questions import Compared, EffectsTable
    from sfumato.analyst.regression.reading import CellSource, StreamSource

SHOWN = 12
"""Coefficients that `explain` shows; all of them are in `to_arrow()`."""
NOISE_ALONE = (
    "Intervals cover only the added noise, not sampling. For conclusions about a population ask for the target "
    "`population`."
)
SAMPLING = "Intervals cover the added noise and sampling: the rows are taken as a random sample."
OF_TABLE = "p tests a number of this table, with the noise alone as chance: it is no test of a law."


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Drawn):
    """A model fitted to a release. Its rows are the coefficients."""

    model: Model
    source: CellSource | StreamSource
    fit: Fit
    target: Target
    level: float
    intervals: Intervals
    notes: tuple[str, ...]

    # --- figures, one for each coefficient ---------------------------------------------------------------------------

    @property
    def terms(self) -> tuple[str, ...]:
        """What each coefficient is of; of a multinomial model with the class before it."""
        return self.fit.names

    @property
    def coefficients(self) -> FloatArray:
        """The estimates: -inf or inf where a level has no corrected events."""
        return self.fit.coefficients

    @property
    def standard_errors(self) -> FloatArray:
        """Their standard errors, NaN for those that are infinite."""
        return self.fit.standard_errors(self.target)

    @cached_property
    def ends(self) -> FloatArray:
        """Both ends of their intervals, (coefficients, 2)."""
        if self.intervals == self.fit.intervals_by:
            return self.fit.interval(self.target, self.level)
        from statistics import NormalDist

        z = NormalDist().inv_cdf((1 + self.level) / 2)
        margin = np.where(np.isnan(self.standard_errors), math.inf, z * self.standard_errors)
        centre = np.where(np.isinf(self.coefficients), 0.0, self.coefficients)
        return np.asarray(centre[:, None] + (margin + self.fit.slack)[:, None] * [-1, 1])

    @cached_property
    def p_values(self) -> FloatArray:
        """Of the test that a coefficient is 0: by the score with score intervals, else by the standard error."""
        from sfumato.analyst.regression.questions import p_values

        return p_values(self)

    @property
    def covariance(self) -> FloatArray:
        """Of the coefficients, for the target."""
        return self.fit.covariance(self.target)

    def interval(self, level: float | None = None) -> FloatArray:
        """Return the ends of intervals of another level, (coefficients, 2)."""
        if level is None or level == self.level:
            return self.ends
        from dataclasses import replace

        return replace(self, level=level).ends

    # --- questions ----------------------------------------------------------------------------------------------------

    def effects(self, *factors: str) -> EffectsTable:
        """Return average effects and standardised risks of factors of the formula; of all of them without a name.

        Of a category: the mean outcome if all records had each of its levels, and its differences from the reference.
        Of a number: the average slope, the change of the mean outcome by one unit.
        """
        from sfumato.analyst.regression.questions import effects

        return effects(self, factors)

    def test(self, *terms: str) -> Test:
        """Return the joint test that coefficients are 0; a name of a factor stands for all coefficients with it."""
        from sfumato.analyst.regression.questions import tested

        return tested(self, terms)

    def compare(self, other: Regression) -> Compared:
        """Return which of two models of the same outcome fits better, by information criteria."""
        from sfumato.analyst.regression.questions import compared

        return compared(self, other)

    def places(self, terms: Sequence[str]) -> IntArray:
        """Return the numbers of the coefficients that are named, by themselves or by a factor."""
        columns = [column.factors for column in self.model.columns] * self.model.family.equations
        found: list[int] = []
        for term in terms:
            own = [k for k, name in enumerate(self.terms) if term == name or term in columns[k]]
            if not own:
                known = dict.fromkeys([*self.model.covariates, *self.terms])
                raise UsageError(f"The model has no term {term!r}.", meant(term, list(known), "Terms are"))
            found += own
        return np.unique(np.array(found, dtype=np.int64))

    # --- for people and programs --------------------------------------------------------------------------------------

    @property
    def ratio(self) -> str:
        """What e to a coefficient is; "" where it is nothing."""
        return ratio_name(self.model.family)

    def figures(self) -> dict[str, FloatArray]:
        """Return the figures by name."""
        lower, upper = self.ends.T
        figures = {
            "coefficient": self.coefficients,
            "standard_error": self.standard_errors,
            "lower": lower,
            "upper": upper,
            "p_value": self.p_values,
            "naive": self.fit.naive,
        }
        if self.ratio:
            with np.errstate(over="ignore"):
                named = zip(RATIOS, (self.coefficients, lower, upper, self.fit.naive), strict=True)
                figures |= {name.format(self.ratio.replace(" ", "_")): np.exp(values) for name, values in named}
        if not self.shows_values:
            figures |= {name: np.full_like(values, math.nan) for name, values in figures.items() if "naive" in name}
        return figures

    @property
    def shows_values(self) -> bool:
        """Whether published rows show values, which a naive fit could take as true: sets and cards do not."""
        return self.model.states.shows_states

    def to_arrow(self) -> Any:
        """Return a row for each coefficient; null where there is no figure."""
        columns = {name: pa.array(values, mask=np.isnan(values)) for name, values in self.figures().items()}
        return pa.table({**self._names(), **columns})

    def _names(self) -> dict[str, list[str]]:
        if not isinstance(self.model.family, Multinomial):
            return {"term": list(self.terms)}
        terms = [column.name for column in self.model.columns]
        classes = self.model.family.classes[1:]
        return {"outcome": [c for c in classes for _ in terms], "term": terms * len(classes)}

    def about(self) -> dict[str, Any]:
        """Return what is said of all rows."""
        family = self.model.family
        base = {"base": family.classes[0]} if isinstance(family, Multinomial) else {}
        return {
            "formula": self.model.formula.text,
            "family": family.name,
            **base,
            "method": self.fit.method,
            "target": self.target,
            "level": self.level,
            "intervals": self.intervals,
            "rows": self.fit.rows,
            "log_likelihood": self.fit.log_likelihood,
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all of it with stable keys (docs/json.md); null for infinite figures, and where there is none."""
        rows = [{name: _finite(value) for name, value in row.items()} for row in self.to_arrow().to_pylist()]
        about = {name: _finite(value) for name, value in self.about().items()}
        infinite = [term for term, value in zip(self.terms, self.coefficients, strict=True) if math.isinf(value)]
        return {**about, "infinite": infinite, "coefficients": rows}

    def save(self, file: Any) -> None:
        """Write the rows to a new file: .csv, .json, .parquet or .arrow."""
        from sfumato.show.files import write_answer

        write_answer(self.to_arrow(), file, self.about())

    def explain(self, most: int = SHOWN) -> str:
        """Return the model in words: a table of its coefficients, and what must be said."""
        heading, rows = _shown(self)
        more = len(rows) - most
        lines = [self._first_line(), "", table(heading, rows[:most], [False] + [True] * (len(heading) - 1))]
        if more > 0:
            lines.append(f"... and {more:,} more coefficients: --json or --output FILE has all.")
        return "\n".join([*lines, "", *self.notes])

    def _first_line(self) -> str:
        kind = {"logistic": "Logistic", "multinomial": "Multinomial", "linear": "Linear", "poisson": "Poisson"}
        weighted = " (sum of weights)" if self.model.weight else ""
        return (
            f"{kind[self.model.family.name]} model of {self.model.formula.text}: {self.fit.rows:,.0f} rows{weighted}."
        )

    def _drawing(self, title: str) -> dict[str, Any]:
        """Return a forest plot: a line for each coefficient, with its interval, and the naive figure beside it."""
        from sfumato.show.forest import forest

        about = f"{percent(self.level)} intervals for the {self.target}; the naive fit is a hollow circle"
        is_shown = [name != "intercept" for name in self.to_arrow()["term"].to_pylist()]
        figures = {name: values[is_shown] for name, values in self.figures().items()}
        names = [name for name, shown in zip(self.terms, is_shown, strict=True) if shown]
        axis = AXES[self.ratio].format(outcome=self.model.outcome.text)
        keys = [name.format(self.ratio.replace(" ", "_")) for name in RATIOS] if self.ratio else PLAIN
        return forest(names, [figures[key] for key in keys], title or self._first_line(), about, axis, bool(self.ratio))

    def __repr__(self) -> str:
        figures = zip(self.terms, self.coefficients, self.standard_errors, self.ends, self.fit.naive, strict=True)
        lines = [
            f"{term}: {estimate:.4g} ± {error:.4g} [{low:.4g}, {high:.4g}], naive {naive:.4g}"
            for term, estimate, error, (low, high), naive in list(figures)[: 2 * SHOWN]
        ]
        more = len(self.terms) - 2 * SHOWN
        rest = [f"... and {more:,} more: .to_arrow() gives all."] if more > 0 else []
        head = f"Regression({self.model.family.name}, {self.fit.method}, {self.target}, {self.level:.0%})"
        return "\n".join([head, *lines, *rest])


RATIOS = ("{}", "{}_lower", "{}_upper", "naive_{}")
PLAIN = ["coefficient", "lower", "upper", "naive"]
AXES = {
    "odds ratio": "odds ratio of {outcome} (1: no difference)",
    "rate ratio": "rate ratio of {outcome} (1: no difference)",
    "": "change of {outcome} (0: none)",
}


def ratio_name(family: Family) -> str:
    """Return what e to a coefficient of a family is."""
    if isinstance(family, Linear):
        return ""
    return "rate ratio" if isinstance(family, Poisson) else "odds ratio"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(answer: Regression) -> tuple[list[str], list[list[str]]]:
    """Return the heading and the lines of the table that people read."""
    lower, upper = answer.ends.T
    main = np.exp if answer.ratio else np.asarray
    first = answer.ratio or "coefficient"
    heading = ["term", first, f"{percent(answer.level)} interval", "coefficient", "error", "naive", "p"]
    with np.errstate(over="ignore"):
        columns = [main(values) for values in (answer.coefficients, lower, upper, answer.fit.naive)]
    rows = []
    for k, term in enumerate(answer.terms):
        estimate, low, high, naive = (_number(float(column[k])) for column in columns)
        own = [_number(float(answer.coefficients[k])), _number(float(answer.standard_errors[k]))]
        p = float(answer.p_values[k])
        rows.append([term, estimate, f"{low} to {high}", *own, naive if answer.shows_values else "-", _p(p)])
    if not answer.ratio:  # the estimate is the coefficient
        rows = [[*row[:3], *row[4:]] for row in rows]
        heading = [*heading[:3], *heading[4:]]
    return heading, rows


def _number(value: float) -> str:
    """Return a figure with three digits.

    >>> _number(0.0123456), _number(12345.6), _number(1.5), _number(float("-inf"))
    ('0.0123', '12,346', '1.50', '-inf')
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value) or value == 0:
        return f"{value:.0f}"
    digits = min(max(2 - math.floor(math.log10(abs(value))), 0), 6)
    return f"{value:,.{digits}f}" if abs(value) >= 1e-4 else f"{value:.2e}"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"

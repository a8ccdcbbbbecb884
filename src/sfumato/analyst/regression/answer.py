"""A fitted model as people read it: coefficients, ratios, errors, intervals, and the naive fit beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.regression.comparison import Test
from sfumato.analyst.regression.diagnostics import FittedGroups, fit_by_cells, hausman, residuals_by_fitted
from sfumato.analyst.regression.families import Family, Linear, Multinomial, Poisson
from sfumato.analyst.regression.fitted import Fitted
from sfumato.analyst.regression.questions import Compared, EffectsTable, compared, effects, p_values, tested
from sfumato.show.layout import percent
from sfumato.show.results import Drawn
from sfumato.show.words import column
from sfumato.values.arrays import FloatArray
from sfumato.values.text import table

MOST_LETTERS = 40
"""Of a term in the table that people read."""
SHOWN = 12
"""Coefficients that `explain` shows; all of them are in `to_arrow()`."""
NOISE_ALONE = (
    "Intervals cover only the added noise, not sampling. For conclusions about a population ask for the target "
    "`population`."
)
OF_TABLE = "p tests a number of this table, with the noise alone as chance: it is no test of a law."


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Fitted, Drawn):
    """A model fitted to a release. Its rows are the coefficients."""

    notes: tuple[str, ...]

    @cached_property
    def p_values(self) -> FloatArray:
        """Of the test that a coefficient is 0: by the score with score intervals, else by the standard error."""
        return p_values(self)

    # --- questions ----------------------------------------------------------------------------------------------------

    def effects(self, *factors: str) -> EffectsTable:
        """Return average effects and standardised risks of factors of the formula; of all of them without a name.

        Of a category: the mean outcome if all records had each of its levels, and its differences from the reference.
        Of a number: the average slope, the change of the mean outcome by one unit.
        """
        return effects(self, factors)

    def test(self, *terms: str) -> Test:
        """Return the joint test that coefficients are 0; a name of a factor stands for all coefficients with it."""
        return tested(self, terms)

    def compare(self, other: Regression) -> Compared:
        """Return which of two models of the same outcome fits better, by information criteria."""
        return compared(self, other)

    def specification(self) -> Test:
        """Return the test that the model is right: of a likelihood fit by its cells, else against the likelihood's."""
        return fit_by_cells(self.fit) if self.fit.method == "likelihood" else hausman(self.fit)

    def residuals(self, groups: int = 10) -> FittedGroups:
        """Return corrected and fitted mean outcomes of rows in groups of like fitted means."""
        return residuals_by_fitted(self.fit, groups)

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
        """Return all of it with stable keys (docs/reference/json.md); null where a figure is infinite or missing."""
        rows = [{name: _finite(value) for name, value in row.items()} for row in self.to_arrow().to_pylist()]
        about = {name: _finite(value) for name, value in self.about().items()}
        infinite = [term for term, value in zip(self.terms, self.coefficients, strict=True) if math.isinf(value)]
        return {**about, "infinite": infinite, "coefficients": rows}

    def save(self, file: Any, escape_formulas: bool = False) -> None:
        """Write the rows to a new file: .csv, .json, .parquet or .arrow.

        escape_formulas: in CSV, put an apostrophe before text that a spreadsheet program would calculate.
        """
        from sfumato.show.files import write_answer

        write_answer(self.to_arrow(), file, self.about(), escape_formulas)

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
    estimates, lows, highs, naive = columns
    ends = column([*map(float, lows), *map(float, highs)])  # one column of the table
    own = [column([*map(float, values)]) for values in (estimates, answer.coefficients, answer.standard_errors, naive)]
    rows = []
    for k, term in enumerate(_compared(answer)):
        estimate, coefficient, error, uncorrected = (values[k] for values in own)
        interval = f"{ends[k]} to {ends[k + len(answer.terms)]}"
        p = _p(float(answer.p_values[k]))
        rows.append([term, estimate, interval, coefficient, error, uncorrected if answer.shows_values else "-", p])
    if not answer.ratio:  # the estimate is the coefficient
        rows = [[*row[:3], *row[4:]] for row in rows]
        heading = [*heading[:3], *heading[4:]]
    return heading, rows


def _compared(answer: Regression) -> list[str]:
    """Return the terms with what levels are compared with, if there is room for it."""
    against = [column.against for column in answer.model.columns] * answer.model.family.equations
    both = zip(answer.terms, against, strict=True)
    told = [f"{term} (against {reference})" if reference else term for term, reference in both]
    return told if max(map(len, told)) <= MOST_LETTERS else list(answer.terms)


def _p(value: float) -> str:
    return "-" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"

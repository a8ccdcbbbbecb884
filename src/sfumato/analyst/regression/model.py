"""A formula and a release put together: factors, states, columns of the design; refused where that cannot be.

the survey's design       untouched columns: weights, clusters, survey strata
the offset                an expression of untouched columns, or of hidden ones
the condition             on untouched columns it selects rows; on hidden ones psi = 0 for states that do not satisfy
                          it, which is the fit to the true records that do
missing values            of an untouched column: the row is left out; of a hidden one: psi = 0 for that state, so
                          that records are left out by their true values, never by the published ones
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sqlglot import exp

from sfumato.analyst.ask.conditions import Condition, column_names, split_condition
from sfumato.analyst.ask.measure import check_weight, check_weights
from sfumato.analyst.ask.survey import SurveyStrata, check_survey_strata
from sfumato.analyst.ask.survey import survey_strata as strata_of
from sfumato.analyst.ask.where import check_column, parsed
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import Truths
from sfumato.analyst.randomized.channel import randomization_of
from sfumato.analyst.regression.design import Column, columns_of, design_of
from sfumato.analyst.regression.factors import Known, check_columns, known_hidden, known_untouched
from sfumato.analyst.regression.families import Family, Linear, Logistic, Multinomial, Poisson
from sfumato.analyst.regression.formula import Factor, Formula, parsed_factor, parsed_formula
from sfumato.analyst.regression.states import States, joint_domain, states_in_buckets, states_of
from sfumato.errors import UsageError
from sfumato.release.folder import manifest_types
from sfumato.values.arrays import BoolArray, FloatArray
from sfumato.values.attributes import SensitiveDomain, label
from sfumato.values.mechanism import Mechanism
from sfumato.values.text import meant

FAMILIES = ("logistic", "multinomial", "linear", "poisson")
Values = Mapping[str, FloatArray]
"""The numbers of each factor by its text: (rows, 1) for untouched ones, (1, states) for hidden ones."""


@dataclass(frozen=True, eq=False)
class Model:
    """What is fitted to a release."""

    release: CountedRelease
    formula: Formula
    family: Family
    outcome: Known
    covariates: dict[str, Known]
    columns: tuple[Column, ...]
    states: States
    condition: Condition
    offset: Known | None
    weight: str
    cluster: str
    survey: SurveyStrata | None

    @property
    def untouched(self) -> tuple[Known, ...]:
        """The factors that published rows have, each once."""
        return tuple(known for known in self._factors if known.domain is None)

    @property
    def hidden(self) -> tuple[Known, ...]:
        """The factors that published rows do not tell."""
        return tuple(known for known in self._factors if known.domain is not None)

    @property
    def _factors(self) -> list[Known]:
        every = [self.outcome, *self.covariates.values(), *([self.offset] if self.offset else [])]
        return list({known.text: known for known in every}.values())

    @property
    def in_buckets(self) -> bool:
        """Whether hidden columns of the formula were dealt to buckets."""
        return self.release.manifest.in_buckets and bool(self.states.domain.parts)

    @cached_property
    def of_state(self) -> dict[str, FloatArray]:
        """The numbers of each hidden factor, (states,); 0 where a number is missing."""
        return {known.text: known.over(self.states.domain)[self.states.code] for known in self.hidden}

    @cached_property
    def _complete(self) -> BoolArray:
        """The states with all values, (states,)."""
        complete = np.ones(self.states.size, dtype=np.bool_)
        for known in self.hidden:
            values = self.of_state[known.text]
            complete &= values >= 0 if known.levels is not None else ~np.isnan(values)
        return complete

    def used(self, truths: Truths) -> BoolArray:
        """Return the states that are in the fit, of rows where the condition's atoms have these truths."""
        if not self.states.domain.parts:
            return self._complete
        return np.asarray(self._complete & self.condition.selected(truths)[self.states.code])

    def design(self, rows: Values, set_to: Mapping[str, float] | None = None) -> FloatArray:
        """Return v, (rows, states or 1, columns); factors may be set to a number, or the number of a level, for all.

        Where the offset depends on the state, so does the predictor: then v has a row for each, too.
        """
        hidden = {name: np.nan_to_num(values)[None, :] for name, values in self.of_state.items()}
        fixed = {name: np.full((1, 1), value) for name, value in (set_to or {}).items()}
        design = design_of(self.columns, {**hidden, **rows, **fixed})
        if self.offset is None or self.offset.domain is None:
            return design
        return np.broadcast_to(design, (design.shape[0], self.states.size, design.shape[2]))

    def outcomes(self, rows: Values) -> FloatArray:
        """Return Y, (rows or 1, states or 1)."""
        values = rows.get(self.outcome.text)
        numbers = self.of_state[self.outcome.text][None, :] if values is None else values
        return _outcome_numbers(self.outcome, self.family, numbers)

    def offsets(self, rows: Values, size: int) -> FloatArray | None:
        """Return the offset, (rows, states or 1)."""
        if self.offset is None:
            return None
        values = rows.get(self.offset.text)
        numbers = np.nan_to_num(self.of_state[self.offset.text])[None, :] if values is None else values
        return np.broadcast_to(numbers, (size, numbers.shape[1]))


def model_of(
    release: CountedRelease,
    formula: str,
    family: str,
    *,
    where: str = "",
    weights: str = "",
    offset: str = "",
    cluster: str = "",
    survey_strata: str = "",
) -> Model:
    """Return the model that a formula means for a release."""
    if family not in FAMILIES:
        raise UsageError(f"There is no family {family!r}.", meant(family, FAMILIES, "Families are"))
    read = parsed_formula(formula)
    offset_factor = parsed_factor(offset, "offset") if offset else None
    tree = parsed(where, manifest_types(release)) if where.strip() else None
    factors = [read.outcome, *read.factors.values(), *([offset_factor] if offset_factor else [])]
    for factor in factors:
        check_columns(release, factor, _refused(release))
    _check_plain(release, weights, cluster, tree)
    if survey_strata:
        check_survey_strata(release, survey_strata)
    named = frozenset().union(column_names(tree), *(factor.columns for factor in factors))
    in_buckets, mechanisms = release.manifest.in_buckets, _mechanisms(release, named)
    is_hidden = bool(named & set(release.manifest.domain.names))
    domain = release.manifest.domain if in_buckets and is_hidden else joint_domain(mechanisms)
    condition = split_condition(release, tree, domain)
    check_weights(release, weights, condition.rows)
    known = _known(release, factors, domain, condition.rows)
    outcome, covariates = known[read.outcome.text], {name: known[name] for name in read.factors}
    made = _family(family, outcome)
    functions = [k.over(domain) for k in known.values() if k.domain is not None]
    states = (
        states_in_buckets(domain)
        if in_buckets and is_hidden
        else states_of(mechanisms, [*functions, *condition.of_values])
    )
    model = Model(
        release, read, made, outcome, covariates, columns_of(read, covariates), states, condition,
        None if offset_factor is None else _number(known[offset_factor.text], "offset"), weights, cluster,
        strata_of(release, survey_strata, cluster, condition.rows) if survey_strata else None,
    )  # fmt: skip
    _check_told(model)
    _check_determined(model)
    return model


# --- the parts --------------------------------------------------------------------------------------------------------


def _mechanisms(release: CountedRelease, names: Iterable[str]) -> list[Mechanism]:
    """Return those that randomized columns with these names."""
    if release.manifest.in_buckets:
        return []
    return [each for each in randomization_of(release).mechanisms if set(each.domain.names) & set(names)]


def _known(release: CountedRelease, factors: Iterable[Factor], domain: SensitiveDomain, where: str) -> dict[str, Known]:
    """Return each factor with its values; levels of untouched ones are those of rows that have all values."""
    known: dict[str, Known] = {}
    unique = {factor.text: factor for factor in factors}
    own = [factor for factor in unique.values() if not factor.columns & set(domain.names)]
    for factor in unique.values():
        if factor not in own:
            known[factor.text] = known_hidden(release, factor, domain)
    for factor in own:
        known[factor.text] = known_untouched(release, factor, where)
    complete = complete_rows([k for k in known.values() if k.domain is None], where)
    for factor in own:  # a level that only incomplete rows have would have no row
        if known[factor.text].levels is not None or factor.standard:
            known[factor.text] = known_untouched(release, factor, complete)
    return known


def complete_rows(untouched: Iterable[Known], where: str) -> str:
    """Return the rows that a condition selects and that have all values, as SQL."""
    needed = [
        f"({known.sql}) IS NOT NULL" if known.levels is not None else f"isfinite(CAST({known.sql} AS DOUBLE))"
        for known in untouched
    ]
    return " AND ".join([*([f"({where})"] if where else []), *needed])


def _number(known: Known, what: str) -> Known:
    if known.levels is not None and not known.is_condition:
        raise UsageError(
            f"The {what} {known.text} is no number.", f"Name a column of numbers, e.g. {what}='log(years)'."
        )
    return known


def _family(name: str, outcome: Known) -> Family:
    """Return the family; raise unless the outcome is of its kind."""
    if outcome.levels is not None and not len(outcome.levels):  # a manifest from anybody may list none
        raise UsageError(f"{outcome.text} has no values.", "Get the release anew from the publisher.")
    if name == "multinomial":
        if outcome.levels is None or len(outcome.levels) < 2:
            raise UsageError(
                f"A multinomial model needs an outcome of several levels, and {outcome.text} has none.",
                f"Write C({outcome.text}) ~ ..., or take another family: linear, poisson.",
            )
        return Multinomial(tuple(label(outcome.levels[k]) for k in _classes(outcome)))
    if outcome.levels is not None and not outcome.is_condition:
        levels = [label(level) for level in outcome.levels]
        shown = outcome.factor.name or outcome.text
        raise UsageError(
            f"The outcome {outcome.text} has the levels {', '.join(levels[:4])}{', ...' if len(levels) > 4 else ''}; a "
            f"{name} model needs {'a yes or no' if name == 'logistic' else 'a number'}.",
            f"Write {shown} == '{levels[-1]}' ~ ..., or take the family multinomial (--family multinomial).",
        )
    if outcome.levels is not None and len(outcome.levels) == 1:
        raise UsageError(
            f"{outcome.text} is {'true' if outcome.levels[0] else 'false'} for every value.",
            "Compare with a value that some records have and others have not.",
        )
    if name == "logistic":
        _check_values(outcome, lambda x: x in (0, 1), "0 or 1", "Write a condition: x > 3 ~ ...")
        return Logistic()
    if name == "poisson":
        _check_values(
            outcome,
            lambda x: x >= 0,
            "0 or more",
            "Counts are not negative; the family linear (--family linear) takes any number.",
        )
        return Poisson()
    return Linear()


def _check_values(outcome: Known, fits: Any, wanted: str, remedy: str) -> None:
    """Raise unless all values that a hidden outcome may have are possible; rows are checked as they are read."""
    if outcome.domain is not None and outcome.levels is None:
        wrong = next((value for value in outcome.of_code if value is not None and not fits(float(value))), None)
        if wrong is not None:
            raise UsageError(f"The outcome {outcome.text} must be {wanted}, and may be {wrong}.", remedy)


def _classes(outcome: Known) -> list[int]:
    """Return the levels of a multinomial outcome, the reference first."""
    assert outcome.levels is not None
    return [outcome.reference, *(k for k in range(len(outcome.levels)) if k != outcome.reference)]


def _outcome_numbers(outcome: Known, family: Family, numbers: FloatArray) -> FloatArray:
    if outcome.levels is None:
        return np.nan_to_num(numbers)
    if isinstance(family, Multinomial):
        number_of = np.argsort(_classes(outcome)).astype(np.float64)
    else:
        number_of = np.array([float(level) for level in outcome.levels])
    return np.where(numbers >= 0, number_of[numbers.astype(np.int64)], 0.0)


# --- what is refused --------------------------------------------------------------------------------------------------


def _refused(release: CountedRelease) -> dict[str, str]:
    """Return columns that no model may look at, with the reason."""
    manifest = release.manifest
    labels = [each.sub_table_column for each in manifest.mechanisms if each.sub_table_column]
    said = {
        name: f"{name!r} tells the sub-table of a row, which depends on the hidden value: a coefficient of it would be "
        "one of the publication, not of the records."
        for name in labels
    }
    if manifest.in_buckets:
        name = manifest.buckets.group_column
        said[name] = f"{name!r} numbers the groups that records were dealt to: it says nothing about the records."
    return said


def _check_plain(release: CountedRelease, weights: str, cluster: str, tree: exp.Expression | None) -> None:
    """Raise if a weight or a cluster is hidden, or a condition looks at what no model may look at."""
    types, hidden, refused = manifest_types(release), release.manifest.domain.names, _refused(release)
    for name, what in ((weights, "weight"), (cluster, "cluster")):
        if name in hidden:
            raise UsageError(
                f"{name!r} is randomized: the published value is not the record's own {what}.",
                f"Name an untouched column as the {what}, or leave it out.",
            )
        if name in refused:
            raise UsageError(refused[name], f"Name another column as the {what}.")
    check_weight(release, weights, types, hidden)
    if cluster:
        check_column(exp.column(cluster), types, ())
    if cluster and release.manifest.in_buckets:
        raise UsageError(
            "Clusters are not possible in a release by groups: its records were dealt together.",
            "Leave the cluster out.",
        )
    if bad := next((name for name in column_names(tree) if name in refused), None):
        raise UsageError(refused[bad], "Leave it out of the condition.")


def _check_told(model: Model) -> None:
    """Raise if a matrix does not tell a state that the model needs: by the names of the values."""
    used = np.logical_or.reduce([model.used(truths) for truths in _some_truths(model)])
    for axis, part in enumerate(model.states.parts):
        sizes = [each.size for each in model.states.parts]
        needed = np.moveaxis(used.reshape(sizes), axis, 0).reshape(part.size, -1).any(axis=1)
        lost = np.flatnonzero(~part.told & needed)
        if lost.size:
            values = [label(part.mechanism.domain.values[int(part.first[k])]) for k in lost]
            shown = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
            raise UsageError(
                f"The release does not tell {shown} of {part.mechanism.domain.name!r} apart: its matrix has no inverse "
                "there.",
                "Count these values as one, C(x, sets={'one': [...]}), or leave them out by a condition.",
            )


def _some_truths(model: Model) -> list[Truths]:
    atoms = len(model.condition.atoms)
    return [(False,) * atoms, (True,) * atoms]


def _check_determined(model: Model) -> None:
    """Raise if the outcome follows from covariates: both look at the same hidden columns."""
    outcome = model.outcome
    if outcome.domain is None:
        return
    shared = [
        k for k in model.covariates.values() if k.domain is not None and k.factor.columns & outcome.factor.columns
    ]
    if not shared:
        return
    used = np.flatnonzero(model.used((True,) * len(model.condition.atoms)))
    seen = np.column_stack([model.of_state[k.text][used] for k in model.hidden if k.text in model.covariates])
    kinds = np.unique(seen, axis=0, return_inverse=True)[1].reshape(-1)
    values = model.of_state[outcome.text][used]
    constant = [np.unique(values[kinds == kind]).size == 1 for kind in range(int(kinds.max()) + 1)]
    if all(constant) if isinstance(model.family, Linear) else any(constant):
        both = ", ".join(sorted(shared[0].factor.columns & outcome.factor.columns))
        raise UsageError(
            f"The outcome {outcome.text} follows from {shared[0].text}: both look at {both}, so the coefficient would "
            "be infinite.",
            "Explain the outcome by other columns.",
        )
